package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// HTTP posts notifications to the incoming webhooks of chats and push services,
// or to any URL. None of the services takes an idempotency key: if a response is
// lost, the message appears twice.
type HTTP struct {
	post     *poster
	header   http.Header
	shape    shape
	template string
	sent     partsSent
}

// shape is the format that a service expects.
type shape struct {
	contentType string
	// body returns the value of the JSON body. If it is nil, the body is the
	// text, and the title goes into the header Title.
	body func(m message) any
	// write, if not nil, writes Markdown in the service's own markup, without images.
	// Otherwise, Markdown becomes plain text.
	write func(markup.Styled) string
	// writesURLs means that write shows the URLs of links.
	writesURLs bool
	// escape, if not nil, escapes a text that is not Markdown, for a service that
	// reads any text as markup.
	escape  func(string) string
	limit   int
	measure markup.Unit
	// tokenHeader is the header of the credential, tokenPrefix its start.
	tokenHeader, tokenPrefix string
	// path is appended to the URL.
	path string
	// secretURL means that the URL contains the credential.
	secretURL bool
}

// shapes are the presets, as the services document them in 2026. Above the limits
// of Slack and ntfy, the service cuts the text or makes it an attachment.
var shapes = map[string]shape{
	"slack": {contentType: "application/json", body: func(m message) any {
		return object{"text": m.Text, "unfurl_links": false, "unfurl_media": false, "mrkdwn": m.Markdown}
	},
		write: markup.WriteSlack, escape: markup.EscapeSlack, limit: 4000, measure: markup.InRunes, secretURL: true},
	"discord": {contentType: "application/json", body: func(m message) any {
		return object{"content": m.Text, "allowed_mentions": object{"parse": []string{}}, "flags": suppressEmbeds}
	},
		write: markup.WriteMarkdown(markup.EscapeMarkdown, markup.MarkdownLink), escape: markup.EscapeMarkdown, limit: 2000,
		measure: markup.InUTF16, secretURL: true},
	"mattermost": {contentType: "application/json", body: func(m message) any { return object{"text": m.Text} },
		write: markup.WriteMarkdown(escapeMattermost, markup.CodeLink), writesURLs: true,
		escape: escapeMattermost, limit: 16000, measure: markup.InRunes, secretURL: true},
	"ntfy": {contentType: "text/plain; charset=utf-8",
		limit: 4096, measure: markup.InBytes, tokenHeader: "Authorization", tokenPrefix: "Bearer "},
	"gotify": {contentType: "application/json", body: gotifyBody,
		write: markup.WriteMarkdown(markup.EscapeMarkdown, markup.MarkdownLink), limit: 16384, measure: markup.InBytes,
		tokenHeader: "X-Gotify-Key", path: "/message"},
	"http": {contentType: "application/json", body: func(m message) any {
		return object{"title": m.Title, "text": m.Text, "is_error": m.IsError, "session": m.Session}
	},
		write: markup.WriteMarkdown(markup.EscapeMarkdown, markup.MarkdownLink), limit: 1 << 20, measure: markup.InBytes,
		tokenHeader: "Authorization", tokenPrefix: "Bearer "},
}

type object map[string]any

// suppressEmbeds is the flag of a Discord message whose links have no previews.
const suppressEmbeds = 4

func gotifyBody(m message) any {
	body := object{"title": m.Title, "message": m.Text}
	if m.IsError {
		body["priority"] = 8 // otherwise, the application's default applies
	}
	if m.Markdown {
		body["extras"] = object{"client::display": object{"contentType": "text/markdown"}}
	}
	return body
}

// HTTPConfig configures an HTTP channel.
type HTTPConfig struct {
	// URL to post to. For some services, it is a secret.
	URL string
	// Token is the credential of services that require one.
	Token string
	// Template replaces the preset's body. {{NAME}} is replaced by a value, escaped
	// for a JSON string or a form if the content type is one, and {{json NAME}} by
	// the value as JSON, with quotes. NAME is .Title, .Text, .Session, .Tool, .ID,
	// .IsError or .Markdown (whether the text is Markdown).
	Template string
	// ContentType replaces the preset's.
	ContentType string
}

// message is the input of bodies and templates.
type message struct {
	Title, Text, Session, Tool, ID string
	IsError, Markdown              bool
}

// NewHTTP returns a channel for a preset, which is a key of shapes.
func NewHTTP(preset string, cfg HTTPConfig) (*HTTP, error) {
	s, ok := shapes[preset]
	if !ok {
		return nil, fmt.Errorf("no preset %q", preset)
	}
	post, err := newPoster(strings.TrimSuffix(cfg.URL, "/")+s.path, cfg.Token, cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", preset, err)
	}
	if s.secretURL {
		post.refusals = append(post.refusals, http.StatusForbidden, http.StatusNotFound)
	} else { // errors may show the path, which helps to find a mistake
		u, _ := url.Parse(cfg.URL) // newPoster has parsed it with a path
		credentials := append(possibleSecret.FindAllString(cfg.Template, -1), cfg.Token)
		if cfg.Token != "" {
			credentials = append(credentials, s.tokenPrefix+cfg.Token)
		}
		post.secrets = secretsOf(&url.URL{User: u.User, RawQuery: u.RawQuery}, credentials...)
	}
	s.contentType = cmp.Or(cfg.ContentType, s.contentType)
	if _, err := fill(cfg.Template, s.contentType, message{}); err != nil {
		return nil, fmt.Errorf("channel %s: template: %w", preset, err)
	}
	h := &HTTP{post: post, shape: s, template: cfg.Template, header: http.Header{"Content-Type": {s.contentType}}}
	if cfg.Token != "" {
		if s.tokenHeader == "" {
			return nil, fmt.Errorf("channel %s: it takes no token; its URL is the secret", preset)
		}
		h.header.Set(s.tokenHeader, s.tokenPrefix+cfg.Token)
	}
	return h, nil
}

// Send posts n in one or more messages.
func (h *HTTP) Send(ctx context.Context, n Notification) error {
	parts, isMarkup := h.shape.messages(n)
	return sendParts(&h.sent, n, parts, func(_ int, part markup.Styled) error {
		m := message{Title: title(n), Text: part.Text, Session: markup.Clean(n.Session), Tool: markup.Clean(n.Tool), ID: headerID(n.ID),
			IsError: n.IsError, Markdown: isMarkup}
		body, err := h.render(m)
		if err != nil {
			return consume.Reject("unsendable", fmt.Errorf("post to %s: body: %w", h.post.host, err))
		}
		header := h.header.Clone()
		if h.shape.body == nil {
			header.Set("Title", mime.QEncoding.Encode("utf-8", m.Title))
		}
		return h.post.post(ctx, header, body)
	}, nil)
}

// messages returns the texts that show a notification, none of which is too long for the service, and
// whether they have its markup. Otherwise, they are plain, and escaped if the service needs that.
func (s shape) messages(n Notification) (parts []markup.Styled, isMarkup bool) {
	all := chatText(n, false)
	if n.Format == FormatMarkdown && s.write != nil {
		shown := all
		if !s.writesURLs {
			shown = all.WithHosts()
		}
		if parts, ok := s.split(shown, s.measure, s.write); ok {
			return parts, true
		}
	}
	if s.escape == nil {
		return all.Plain().Split(s.limit, s.measure), false
	}
	parts, _ = s.split(all.Plain(), markup.Escaped(s.measure), func(part markup.Styled) string { return s.escape(part.Text) })
	return parts, false
}

// split splits a text into parts that write does not make too long; ok is false if it makes them
// much longer.
func (s shape) split(all markup.Styled, measure markup.Unit, write func(markup.Styled) string) (parts []markup.Styled, ok bool) {
	for limit := s.limit; limit > s.limit/16 && !ok; limit = limit * 3 / 4 {
		parts, ok = all.Split(limit, measure), true
		for i, part := range parts {
			parts[i] = markup.Styled{Text: write(part)}
			ok = ok && markup.Size(parts[i].Text, s.measure) <= s.limit
		}
	}
	return parts, ok
}

func (h *HTTP) render(m message) ([]byte, error) {
	switch {
	case h.template != "":
		return fill(h.template, h.shape.contentType, m)
	case h.shape.body == nil:
		return []byte(m.Text), nil
	}
	return json.Marshal(h.shape.body(m))
}

// title returns a short title of a notification.
func title(n Notification) string {
	name := tools.Excerpt(tools.EscapeLine(n.Tool), 60)
	switch {
	case name == "":
		return "Stevedore"
	case n.IsError:
		return name + " failed"
	}
	return name
}

// chatText returns the text of n without invisible characters. It parses Markdown
// into styled text, except for services that show Markdown.
func chatText(n Notification, showsMarkdown bool) markup.Styled {
	text := markup.Styled{Text: markup.Clean(n.Text)}
	if strings.TrimSpace(text.Text) == "" {
		text.Text = "(a message without visible text)"
	}
	if n.Format == FormatMarkdown && !showsMarkdown {
		text = markup.Parse(text.Text)
	}
	if n.IsError {
		text = markup.Styled{Text: "⚠ "}.Plus(text)
	}
	if n.Note != "" {
		text = text.Plus(markup.Styled{Text: "\n(" + markup.Clean(n.Note) + ")"})
	}
	return text
}

var massMention = lazyregexp.New(`(?i)@(all|channel|here|everyone)`)

// escapeMattermost also breaks the mentions that notify all members.
func escapeMattermost(text string) string {
	return massMention.ReplaceAllString(markup.InertURLs(markup.EscapeMattermost)(text), "@\u200b$1")
}

// partsSent counts the parts of notifications that were sent, so that the next
// attempt continues after them. It is lost on a restart.
type partsSent struct {
	mu     sync.Mutex
	counts map[[sha256.Size]byte]int // of notifications whose last attempt failed, by Notification.Digest
}

// maxPartsSent limits the counts, because a notification that becomes a dead letter
// leaves its count. Without its count, an attempt starts with the first part.
const maxPartsSent = 10_000

// fileLeft is the count of a notification of which only the file was not sent.
const fileLeft = math.MaxInt

func (p *partsSent) get(key [sha256.Size]byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[key]
}

func (p *partsSent) set(key [sha256.Size]byte, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil || len(p.counts) >= maxPartsSent {
		p.counts = map[[sha256.Size]byte]int{}
	}
	if delete(p.counts, key); count > 0 {
		p.counts[key] = count
	}
}

// sendParts sends the parts of n, and then its file. If the service refuses the file, the user learns why.
func sendParts(sent *partsSent, n Notification, parts []markup.Styled, send func(i int, part markup.Styled) error, sendFile func(f *Document) error) error {
	key := n.Digest()
	first := sent.get(key)
	for i := first; i < len(parts); i++ {
		if err := send(i, parts[i]); err != nil {
			sent.set(key, i)
			return err
		}
	}
	var err error
	switch {
	case n.File != nil:
		err = sendFile(n.File)
		if code, refused := consume.Rejected(err); refused {
			err = send(len(parts), markup.Styled{Text: n.File.refused(code)})
		}
	case first == fileLeft: // it is gone since then, and the user has the text without this note
		err = send(len(parts), markup.Styled{Text: "(" + markup.Clean(n.Note) + ")"})
	}
	if err != nil {
		sent.set(key, fileLeft)
		return err
	}
	sent.set(key, 0)
	return nil
}

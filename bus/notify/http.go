package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// HTTP posts notifications to the incoming webhooks of chats and push services,
// or to any URL. None of the services takes an idempotency key: if a response is
// lost, the message appears twice.
type HTTP struct {
	post     *poster
	header   http.Header
	shape    shape
	template string
	sent     progress
}

// shape is the format that a service expects.
type shape struct {
	contentType string
	// body returns the value of the JSON body. If it is nil, the body is the
	// text, and the title goes into the header Title.
	body func(m message) any
	// markdown says that the service shows Markdown by itself. write, if not
	// nil, writes the text in the service's own markup. With neither, Markdown
	// becomes plain text.
	markdown bool
	write    func(styled) string
	// plain, if not nil, escapes a text that is not Markdown for a service that
	// would read it as such.
	plain func(string) string
	// neutral takes what the service acts on out of the text.
	neutral func(string) string
	limit   int
	measure unit
	// Where the credential goes: header, and what stands before it.
	tokenHeader, tokenPrefix string
	// path is appended to the URL.
	path string
	// secretURL says that who knows the URL can post.
	secretURL bool
}

// shapeOf returns a preset, as the services document them (limits as of 2026;
// those of Slack and ntfy are the ones from which on text is cut or attached).
func shapeOf(preset string) (shape, bool) {
	const isJSON = "application/json"
	type object map[string]any
	switch preset {
	case "slack":
		return shape{contentType: isJSON, body: func(m message) any { return object{"text": m.Text, "unfurl_links": false, "mrkdwn": m.Markdown} },
			write: writeSlack, limit: 4000, measure: inRunes, secretURL: true}, true
	case "discord":
		return shape{contentType: isJSON, body: func(m message) any { return object{"content": m.Text, "allowed_mentions": object{"parse": []string{}}} },
			markdown: true, plain: escapeMarkdown, limit: 2000, measure: inUTF16, secretURL: true}, true
	case "mattermost":
		return shape{contentType: isJSON, body: func(m message) any { return object{"text": m.Text} },
			markdown: true, plain: escapeMattermost, neutral: neutralMentions, limit: 16000, measure: inRunes, secretURL: true}, true
	case "ntfy":
		return shape{contentType: "text/plain; charset=utf-8",
			limit: 4096, measure: inBytes, tokenHeader: "Authorization", tokenPrefix: "Bearer "}, true
	case "gotify":
		return shape{contentType: isJSON, body: gotifyBody,
			markdown: true, limit: 16384, measure: inBytes, tokenHeader: "X-Gotify-Key", path: "/message"}, true
	case "http":
		return shape{contentType: isJSON, body: func(m message) any {
			return object{"title": m.Title, "text": m.Text, "is_error": m.IsError, "session": m.Session}
		},
			markdown: true, limit: 1 << 20, measure: inBytes, tokenHeader: "Authorization", tokenPrefix: "Bearer "}, true
	}
	return shape{}, false
}

func gotifyBody(m message) any {
	body := map[string]any{"title": m.Title, "message": m.Text}
	if m.IsError {
		body["priority"] = 8 // otherwise, the application's default applies
	}
	if m.Markdown {
		body["extras"] = json.RawMessage(`{"client::display":{"contentType":"text/markdown"}}`)
	}
	return body
}

// HTTPConfig describes an HTTP channel.
type HTTPConfig struct {
	// URL to post to; for some services a secret.
	URL string
	// Token is a credential, for services that want one.
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

// NewHTTP returns a channel for a preset: slack, discord, mattermost, ntfy,
// gotify, or http.
func NewHTTP(preset string, cfg HTTPConfig) (*HTTP, error) {
	s, ok := shapeOf(preset)
	if !ok {
		return nil, fmt.Errorf("channel %q: no preset of that name", preset)
	}
	post, err := newPoster(strings.TrimSuffix(cfg.URL, "/")+s.path, cfg.Token, cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", preset, err)
	}
	if !s.secretURL { // then its path is no secret, and helps to find a mistake
		u, err := url.Parse(cfg.URL)
		if err != nil {
			return nil, fmt.Errorf("channel %s: the URL cannot be read", preset) // newPoster read it
		}
		credentials := append(words.FindAllString(cfg.Template, -1), cfg.Token)
		if cfg.Token != "" {
			credentials = append(credentials, s.tokenPrefix+cfg.Token)
		}
		post.secrets = secretsOf(&url.URL{User: u.User, RawQuery: u.RawQuery}, credentials...)
	}
	if cfg.ContentType != "" {
		s.contentType = cfg.ContentType
	}
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

// Send posts n, in as many parts as the service needs.
func (h *HTTP) Send(ctx context.Context, n Notification) error {
	all := chatText(n, h.shape.markdown)
	if h.shape.write == nil {
		all = all.readable()
	}
	plain, measure := h.shape.plain, h.shape.measure
	if n.Format == FormatMarkdown {
		plain = nil
	}
	if plain != nil {
		measure = escaped(measure)
	}
	parts := all.split(h.shape.limit, measure)
	if len(parts) > 1 && h.shape.markdown && n.Format == FormatMarkdown {
		parts = wholeFences(all.split(h.shape.limit-fenceRoom, h.shape.measure))
	}
	return sendParts(&h.sent, n.ID, parts, func(part styled) error {
		text := part.text
		if h.shape.write != nil {
			text = h.shape.write(part)
		}
		if plain != nil {
			text = plain(text)
		}
		if h.shape.neutral != nil {
			text = h.shape.neutral(text)
		}
		m := message{Title: title(n), Text: text, Session: clean(n.Session), Tool: clean(n.Tool), ID: headerID(n.ID), IsError: n.IsError, Markdown: n.Format == FormatMarkdown}
		body, err := h.render(m)
		if err != nil {
			return bus.Reject("unsendable", fmt.Errorf("post to %s: body: %w", h.post.host, err))
		}
		header := h.header.Clone()
		if h.shape.body == nil {
			header.Set("Title", mime.QEncoding.Encode("utf-8", m.Title))
		}
		return h.post.post(ctx, header, body)
	})
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

// title says in a few words what a notification is about.
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

// chatText is the text of n for people who chat: nothing of it is hidden. Where
// the chat shows no Markdown by itself, it becomes styled text.
func chatText(n Notification, showsMarkdown bool) styled {
	text := styled{text: clean(n.Text)}
	if strings.TrimSpace(text.text) == "" {
		text.text = "(a message without visible text)"
	}
	if n.Format == FormatMarkdown && !showsMarkdown {
		text = readMarkdown(text.text)
	}
	if n.IsError {
		text = styled{text: "⚠ "}.plus(text)
	}
	if n.Note != "" {
		text = text.plus(styled{text: "\n(" + clean(n.Note) + ")"})
	}
	return text
}

var massMention = regexp.MustCompile(`(?i)@(all|channel|here|everyone)`)

// neutralMentions breaks the mentions that reach everybody.
func neutralMentions(text string) string {
	return massMention.ReplaceAllString(text, "@\u200b$1")
}

// progress remembers how many parts of a notification arrived, so that an
// attempt after a failure goes on where the last one ended. Notifications come
// one at a time; a restart forgets.
type progress struct {
	id   string
	sent int
}

func sendParts[T any](p *progress, id string, parts []T, send func(part T) error) error {
	if p.id != id {
		p.id, p.sent = id, 0
	}
	for p.sent < len(parts) {
		if err := send(parts[p.sent]); err != nil {
			return err
		}
		p.sent++
	}
	return nil
}

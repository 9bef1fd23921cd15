package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// outside lists the visible controls that are not within their form, or not within the screen.
const outside = `[...document.querySelectorAll("main input,main button,main select,main textarea,main .button")].filter(el => {
	const r = el.getBoundingClientRect(), form = el.closest(".composer,.filters,.approve,.title") || document.body, f = form.getBoundingClientRect();
	return el.offsetParent && !el.closest(".table,.scroller") && r.width > 0 && (r.left < f.left - 1 || r.right > f.right + 1 || r.right > innerWidth || r.left < 0);
}).map(el => (el.ariaLabel || el.textContent) + " " + JSON.stringify(el.getBoundingClientRect()))`

// Each control is within its form and within the screen, whatever models the workers have.
func TestControlsFit(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	several := `["anthropic:claude-of-a-long-name-and-more-20261101","openai:small","script:/home/anna/scripts/a.jsonl"]`
	for _, models := range []string{`[]`, `["small"]`, several} {
		in := startWith(t, console.Config{}, models)
		in.say("harbour", `{"kind":"user","run":"r","at":"2026-11-22T04:00:00Z","message":{"role":"user","content":[{"type":"text","text":"`+
			`A first message of a length that fills the title of the conversation on any screen"}]}}`)
		in.ask("harbour", "toolu_deploy", textArgs{Text: "Release the new berth plan"})
		b := browse(t, in, 1440, 900)
		for _, width := range []int64{390, 768, 1440} {
			b.run(chromedp.EmulateViewport(width, 844))
			for hash, text := range map[string]string{
				"now": "worker answers", "calls": "", "artifacts": "", "conversations": "", "conversations/harbour": "fills the title", "conversations/new": "",
				"approvals": "berth plan", "usage": "", "schedules": "",
			} {
				if models != several && !strings.HasPrefix(hash, "conversations/") {
					continue // the page does not show the models
				}
				b.open(hash, text)
				b.until("document.querySelector('main').innerText.length > 20 && !document.querySelector('main').innerText.includes('Loading')")
				if hash == "conversations/harbour" || hash == "conversations/new" {
					b.until(fmt.Sprintf("document.querySelector('.composer select').options.length === %d", countOf(models)))
				}
				if found := b.eval(outside); found != "" {
					t.Errorf("%s at %d px with the models %s: %s", hash, width, models, found)
				}
				if hash == "approvals" {
					b.shows("harbour / toolu_deploy")
				}
			}
		}
	}
}

func countOf(models string) (n int) {
	for _, c := range models {
		if c == ',' {
			n++
		}
	}
	if models != "[]" {
		n++
	}
	return n
}

// A call shows what it was asked for, and numbers that are zero. An empty list has no picture of
// what is loading.
func TestRowsShowWhatWasCalled(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	b := browse(t, in, 1440, 900)
	for _, hash := range []string{"now", "artifacts"} {
		b.open(hash, map[string]string{"now": "Nothing is running", "artifacts": "No result was offloaded yet"}[hash])
		b.until("!document.querySelector('main .empty .load')")
	}
	in.call("harbour", "toolu_logs", "logs", textArgs{Lines: 60_000})
	in.call("harbour", "toolu_fails", "read_manifest", textArgs{Text: "no such file"})
	in.begin("harbour", "toolu_train", "train", textArgs{Text: "epoch 0 of 10"})
	for _, hash := range []string{"now", "calls"} {
		b.open(hash, "lines: 60000")
		b.shows("no such file")
	}
	b.open("now", "0 % epoch 0 of 10")
	b.open("calls/harbour/toolu_train", "0 %")
	if text := b.text(); text == "" || b.eval("document.body.innerText.includes('NaN')") == "true" {
		t.Errorf("the page shows no number: %s", text)
	}
	b.open("artifacts", "all of it is 1 GB")
}

package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// talked is a run of 9 s: a turn of 3 s, a call of 2 s, and a turn of 4 s, which costs most.
var talked = []string{
	`{"kind":"user","run":"r1","at":"2026-11-22T04:00:00Z","call":{"id":"r1","session":"night watch","tool":"agent"},"message":{"role":"user","content":[{"type":"text","text":"Which containers?"}]}}`,
	`{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:03Z","model":"sonnet","usage":{"input_tokens":1000,"output_tokens":100,"cost":0.01},"message":{"role":"assistant","content":[{"type":"text","text":"I read the log first."},{"type":"tool_use","id":"u1","name":"logs","input":{"lines":60000}}]}}`,
	`{"kind":"notice","at":"2026-11-22T04:00:04Z","notice":{"id":"n","title":"The user received a reminder","text":"Tea!"}}`,
	`{"kind":"results","run":"r1","at":"2026-11-22T04:00:05Z","answers":[{"call":"r1-t1-0","tool":"logs","outcome":"completed","for_llm":"60,000 lines"}]}`,
	`{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:09Z","model":"sonnet","usage":{"input_tokens":2120,"output_tokens":114,"cost":0.02},"message":{"role":"assistant","content":[{"type":"text","text":"7,500 moves were errors."}]}}`,
	`{"kind":"end","run":"r1","at":"2026-11-22T04:00:09Z","end":{"reason":"done","turns":2,"usage":{"input_tokens":3120,"output_tokens":214}},"total":{"turns":2,"input_tokens":3120,"output_tokens":214}}`,
}

// A conversation has the width. What keeps the books is one quiet line between two messages, and
// opens.
func TestConversationHasTheWidth(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.say("harbour", talked...)
	b := browse(t, in, 1440, 900)
	b.open("conversations/harbour", "7,500 moves")
	b.until("document.querySelectorAll('.books').length === 2")
	if wide := b.eval("document.querySelector('.log').clientWidth >= 720"); wide != "true" {
		t.Errorf("the conversation has %s px", b.eval("document.querySelector('.log').clientWidth"))
	}
	b.shows("night watch")
	if text := b.eval("document.querySelectorAll('.books > summary')[0].innerText.replace(/\\s+/g, ' ')"); text != "logs 1 call" {
		t.Errorf("the quiet line is %q", text)
	}
	b.eval("document.querySelector('.books > summary').click()")
	b.shows("The user received a reminder")
	b.shows("result of")
	b.eval("document.querySelector('.widen').click()")
	b.until("!document.querySelector('.master').offsetParent && document.querySelector('.log').clientWidth > 1000")
	b.accessible()
}

// The trace marks the slowest and the dearest step and the chain of steps that the run waited for,
// on an axis with times.
func TestTraceShowsWhatWasSlow(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.say("harbour", talked...)
	b := browse(t, in, 1440, 900)
	b.open("conversations/harbour/trace", "slowest and dearest")
	if got := b.eval("[...document.querySelectorAll('.step')].find(s => s.innerText.includes('slowest and dearest')).innerText.includes('cost 0.0200')"); got != "true" {
		t.Errorf("the marks are at another step: %s", b.text())
	}
	if got := b.eval("[...document.querySelectorAll('.axis span')].map(s => s.innerText)"); got != "0,2.0 s,4.0 s,6.0 s,8.0 s" {
		t.Errorf("the axis has %s", got)
	}
	if got := b.eval("document.querySelectorAll('.step.slow').length"); got != "3" {
		t.Errorf("the chain has %s steps", got)
	}
	b.accessible()
	// The steps can be filtered, by what they are and by words.
	shown := func() string {
		return b.eval("[...document.querySelectorAll('.step')].map(s => s.querySelector('b').innerText)")
	}
	choose := func(label, value string) {
		b.eval(`(s => { s.value = "` + value + `"; s.dispatchEvent(new Event("change")) })(document.querySelector('select[aria-label="` + label + `"]'))`)
	}
	choose("Which steps", "dear")
	if got := shown(); got != "sonnet,sonnet" {
		t.Errorf("the steps with a cost are %s", got)
	}
	choose("Which steps", "")
	b.eval("document.querySelector('[aria-label=\"Filter the steps\"]').focus()")
	b.press("60000")
	b.until("document.querySelectorAll('.step').length === 1")
	if got := shown(); got != "logs" {
		t.Errorf("the steps with the argument are %s", got)
	}
	b.press("0")
	b.shows("No step matches")
	// Another run stands beside it.
	for _, entry := range talked {
		in.say("harbour", strings.ReplaceAll(strings.ReplaceAll(entry, "r1", "r2"), "T04:", "T05:"))
	}
	b.until("document.querySelector('[aria-label=\"Compare with\"]')?.options.length === 2")
	b.screenshot("trace")
	choose("Compare with", "r1")
	b.until("document.querySelectorAll('.panes > div').length === 2 && document.querySelectorAll('.axis').length === 2")
	b.accessible()
	b.run(chromedp.EmulateViewport(390, 844))
	if wide := b.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
		t.Error("the trace is wider than a phone")
	}
}

package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// click presses the mouse on the first element with a text, when the screen shows it and it moves no more, and
// again if the element moved or was drawn again meanwhile.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	// What covers the middle of the element would take the click.
	find := fmt.Sprintf(`(e => {
		if (!e) return "";
		const r = e.getBoundingClientRect(), at = [r.x + r.width / 2, r.y + r.height / 2], top = document.elementFromPoint(...at);
		window.clicked = false;
		e.addEventListener("click", () => { window.clicked = true }, { once: true, capture: true });
		return top && e.contains(top) ? JSON.stringify(at) : "";
	})([...document.querySelectorAll(%q)].find(e => e.checkVisibility() && e.textContent.includes(%q)))`, selector, text)
	place, before := "", ""
	bustest.WaitUntil(b.t, "a click on "+text, func() bool {
		before, place = place, b.eval(find)
		if place == "" || place != before {
			return false
		}
		var at [2]float64
		decode(b.t, place, &at)
		b.run(chromedp.MouseClickXY(at[0], at[1]))
		return b.eval("window.clicked") == "true"
	})
}

// longRun is the log of a run of 40 turns with a call each. One call takes 41 s, another turn costs most, and a
// third call has a wrong argument.
func longRun() []string {
	at := time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)
	entry := func(seconds int, fields string) string {
		at = at.Add(time.Duration(seconds) * time.Second)
		return fmt.Sprintf(`{"run":"r1","at":%q,%s}`, at.Format(time.RFC3339), fields)
	}
	log := []string{entry(0, `"kind":"user","call":{"id":"r1","session":"harbour","tool":"agent"},"message":{"role":"user","content":[{"type":"text","text":"Count the containers"}]}`)}
	for i := 1; i <= 40; i++ {
		cost, took, tool, args, outcome, text := 0.01, 1, "read_file", fmt.Sprintf(`{"path":"bay-%02d.csv"}`, i), "completed", "40 containers"
		switch i {
		case 17:
			took, tool, args = 41, "shell", `{"command":"make manifest"}`
		case 29:
			cost = 0.93
		case 33:
			tool, args, outcome, text = "read_manifest", `{"path":"manifst.csv"}`, "failed", "open manifst.csv: no such file"
		}
		log = append(log,
			entry(2, fmt.Sprintf(`"kind":"assistant","model":"sonnet","usage":{"input_tokens":1000,"output_tokens":100,"cost":%g},"message":{"role":"assistant","content":[{"type":"text","text":"Step %d."},{"type":"tool_use","id":"u%[2]d","name":%[3]q,"input":%[4]s}]}`, cost, i, tool, args)),
			entry(took, fmt.Sprintf(`"kind":"results","answers":[{"call":"r1-t%d-0","tool":%q,"outcome":%q,"for_llm":%q,"is_error":%t}]`, i, tool, outcome, text, outcome == "failed")))
	}
	return append(log, entry(0, `"kind":"end","end":{"reason":"done","turns":40}`))
}

// A person finds the slow step, the dear step and the wrong argument of a run with 40 turns in five clicks,
// without scrolling, on a desk and on a phone.
func TestFiveClicksFindWhatWentWrong(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.say("harbour", longRun()...)
	// A call waited for a person for longer than any worked: that is not what was slow.
	at := time.Date(2026, 11, 22, 4, 0, 20, 0, time.UTC)
	if _, err := task.ChangeRecord(t.Context(), in.bus, tools.CallKey{Session: "harbour", ID: "r1-t20-0"}, func(r *task.Record) error {
		r.Asked, r.Answer = at, &task.Answer{Approve: true, By: "a person", At: at.Add(time.Minute)}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{1440, 390} {
		b := browse(t, in, width, 844)
		b.open("conversations", "Count the containers")
		open := func(text string) {
			b.until(fmt.Sprintf(`document.activeElement.closest(".step")?.querySelector("details[open] .more")?.innerText.includes(%q)`, text))
		}
		b.click(".entry", "Count the containers") // 1
		b.click(".title .button", "Trace")        // 2
		b.shows("40 turns, 40 calls")
		if got := b.eval("[...document.querySelectorAll('.axis span')].map(s => s.innerText)"); got != "0,30 s,1 min,1 min 30 s,2 min" {
			t.Errorf("the axis has %s", got)
		}
		b.click(".jumps button", "Slowest: shell, 41 s") // 3
		open(`"command": "make manifest"`)
		b.click(".jumps button", "Dearest: sonnet, cost 0.9300") // 4
		open("Step 29.")
		b.click(".jumps button", "First failure: read_manifest, manifst.csv: open manifst.csv: no such file") // 5
		open(`"path": "manifst.csv"`)
		open("no such file")
		b.screenshot(fmt.Sprint("trace-clicks-", width))
		b.accessible()
		if wide := b.eval("document.documentElement.scrollWidth > innerWidth || document.querySelector('.detail').scrollWidth > document.querySelector('.detail').clientWidth"); wide != "false" {
			t.Errorf("the trace is wider than %d px", width)
		}
		// A filter that hides the step does not keep it hidden.
		b.eval("(e => { e.value = 'nothing'; e.dispatchEvent(new Event('input')) })(document.querySelector('[aria-label=\"Filter the steps\"]'))")
		b.shows("No step matches")
		b.click(".jumps button", "Slowest")
		open(`"command": "make manifest"`)
	}
}

// A turn of a run opens the request that the model got, with the system prompt, the tools and all messages,
// and the answer. They can be copied. Hostile texts in them stay texts, and a log that lacks a part says so.
func TestTurnOfARun(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := startAgents(t, `
{"text":"I look.","tools":[{"name":"grep","input":{"text":"crane 3","done":9007199254740993}}]}
{"text":"All is <b>fine</b>."}`)
	if err := <-in.prompt("s", "r1", "Look at the harbour"); err != nil {
		t.Fatal(err)
	}
	turn := get[agents.Turn](in, "/api/sessions/s/runs/r1/2")
	var request struct {
		Model, System string
		MaxTokens     int `json:"max_tokens"`
		Messages      []struct{ Role string }
		Tools         []struct {
			Name   string
			Schema json.RawMessage `json:"input_schema"`
		}
	}
	decode(t, turn.Request, &request)
	if request.Model != "claude-test" || request.System != "You are the harbour master." || request.MaxTokens == 0 || len(request.Messages) != 3 || len(request.Tools) < 5 ||
		turn.Setup != "stored" || turn.Late != 0 || !strings.Contains(turn.Request, "9007199254740993") || turn.Answer != `[{"type":"text","text":"All is <b>fine</b>."}]` {
		t.Errorf("the turn is %+v", turn)
	}
	for path, want := range map[string]int{"/api/sessions/s/runs/r1/3": 404, "/api/sessions/s/runs/nobody/1": 404, "/api/sessions/nobody/runs/r1/1": 404, "/api/sessions/s/runs/r1/x": 400} {
		if status, body := in.request("GET", path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}

	b := browse(t, in, 1440, 900)
	b.eval("void (navigator.clipboard.writeText = text => { window.copied_ = text; return Promise.resolve() })")
	b.open("conversations/s/trace", "2 turns, 1 call")
	b.shows("done: 9007199254740993")
	b.eval("[...document.querySelectorAll('.step summary')].findLast(s => s.innerText.includes('claude-test')).click()")
	b.click(".step .turn button", "Request and answer")
	b.shows("All is <b>fine</b>.")
	b.shows("3 messages")
	b.eval("document.querySelectorAll('.fold').forEach(d => { d.open = true })")
	for _, text := range []string{"You are the harbour master.", "Look at the harbour", "calls grep", "crane 3", "9007199254740993", "result of ", `"type": "object"`} {
		b.shows(text)
	}
	b.accessible()
	b.eval("document.querySelectorAll('.fold .fold').forEach(d => { d.open = false })")
	b.screenshot("trace-turn")
	b.click(".turn button", "Copy as JSON")
	b.shows("Copied")
	if got := b.eval("window.copied_"); got != turn.Request {
		t.Errorf("the copy is %s", got)
	}
	b.click(".turn button", "Copy as curl")
	b.until("window.copied_.startsWith('curl https://api.anthropic.com/v1/messages')")
	if got := b.eval("window.copied_"); !strings.Contains(got, "$ANTHROPIC_API_KEY") || !strings.HasSuffix(got, "<<'JSON'\n"+turn.Request+"\nJSON\n") {
		t.Errorf("the command is %s", got)
	}

	quoted, err := json.Marshal(hostile + strings.Repeat("x", 60_000))
	if err != nil {
		t.Fatal(err)
	}
	in.say("old", `{"kind":"user","run":"r","at":"2026-11-22T04:00:00Z","message":{"role":"user","content":[{"type":"text","text":`+string(quoted)+`}]}}`,
		`{"kind":"notice","at":"2026-11-22T04:00:01Z","notice":{"id":"n","title":"A reminder","text":"Tea!"}}`,
		`{"kind":"assistant","run":"r","at":"2026-11-22T04:00:02Z","message":{"role":"assistant","content":[{"type":"image","source":{"data":"AAAA"}},{"type":"tool_use","id":"u","name":"x","input":{"a":`+string(quoted)+`}},{"type":"odd"}]}}`)
	b.open("conversations/old/trace", "1 turn")
	b.eval("document.querySelector('.step summary').click()")
	b.click(".step .turn button", "Request and answer")
	b.shows("an earlier version wrote its log")
	b.shows("The last 1 notice came while the model answered")
	b.shows("[picture, 4 characters of base64]")
	b.eval("document.querySelectorAll('.fold').forEach(d => { d.open = true })")
	b.shows("These are the first 50,000 of")
	if found := b.eval(`[...document.querySelectorAll("main script, main img, main svg, [onerror], [onload]")].length + " " + window.pwned`); found != "0 undefined" {
		t.Errorf("elements and effects of the text: %s", found)
	}
	if got := b.eval("document.querySelector('.turn').innerText.includes('as curl')"); got != "false" {
		t.Error("a request that lacks a part can be copied as a command")
	}
}

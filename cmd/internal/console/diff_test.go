package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

type lineDiff struct {
	Added, Removed int
	Cut, Partial   bool
	Lines          []struct {
		Kind, Text string
		Number     int
	}
}

// text shows a diff as people write it, without equal lines.
func (d lineDiff) text() string {
	var b strings.Builder
	for _, l := range d.Lines {
		if l.Kind != "equal" {
			fmt.Fprintf(&b, "%s %d %s\n", l.Kind, l.Number, l.Text)
		}
	}
	return b.String()
}

// Two results of a tool are compared by lines: also large ones, which are artifacts, and JSON in one line.
// What is compared and shown has bounds, and the answer says which was reached.
func TestDiffOfTwoResults(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	in := start(t, console.Config{})
	moved := logLines(9000)
	put := func(id, text string) { in.call("s", id, "web_fetch", textArgs{Text: text}) }
	put("old", moved)
	put("new", strings.Replace(strings.Replace(moved, "container 0000002", "container 000000X", 1), "container 0008000", "container 000800X", 1))
	put("json-1", `{"a":[1,{"b":2}],"c":"x"}`)
	put("json-2", `{"a":[1,{"b":3}],"c":"x"}`)
	put("json-3", "{\n  \"a\": [1, {\"b\": 3}],\n  \"c\": \"x\"\n}\n")
	put("no-json", `{"a":[1,{"b":3}],"c":"x"`)
	put("deep-1", strings.Repeat("[", 9000)+strings.Repeat("1,", 400_000)+"1"+strings.Repeat("]", 9000))
	put("deep-2", strings.Repeat("[", 9000)+strings.Repeat("1,", 400_000)+"2"+strings.Repeat("]", 9000))
	put("long-1", strings.Repeat("a\n", 300_000))
	put("long-2", strings.Repeat("b\n", 300_000))
	put("wide-1", strings.Repeat("w", 5000))
	put("empty", "")
	in.call("other", "fails", "read_manifest", textArgs{Text: "no such file"})
	diff := func(id, session, with string) lineDiff {
		return get[lineDiff](in, "/api/calls/s/"+id+"/diff?"+url.Values{"with_session": {session}, "with": {with}}.Encode())
	}
	if d := diff("new", "s", "old"); d.Added != 2 || d.Removed != 2 || d.Cut || d.Partial || strings.Count(d.text(), "gap") != 1 ||
		!strings.Contains(d.text(), "removed 3 ") || !strings.Contains(d.text(), "added 8001 ") || len(d.Lines) > 20 {
		t.Errorf("the logs: %+v", d)
	}
	table, changed := "id,state\n", "id,state\n"
	for i := range 4000 {
		table += fmt.Sprintf("%d,open\n", i)
		changed += fmt.Sprintf("%d,%s\n", i, map[bool]string{true: "shut", false: "open"}[i%4 == 0])
	}
	put("table", table)
	put("changed", changed)
	if d := diff("changed", "s", "table"); d.Added != 1000 || d.Removed != 1000 || d.Cut == (len(d.Lines) < 2000) {
		t.Errorf("many changes: %d added, %d removed, %d lines, cut: %v", d.Added, d.Removed, len(d.Lines), d.Cut)
	}
	if d := diff("json-2", "s", "json-1"); d.text() != "removed 5    \"b\": 2\nadded 5    \"b\": 3\n" {
		t.Errorf("JSON: %s", d.text())
	}
	if d := diff("json-3", "s", "json-2"); len(d.Lines) > 0 {
		t.Errorf("the same JSON in lines: %s", d.text())
	}
	if d := diff("json-2", "s", "no-json"); d.Added != 1 || d.Removed != 1 {
		t.Errorf("JSON beside one that is cut off: %s", d.text())
	}
	if d := diff("deep-2", "s", "deep-1"); d.Added != 1 || d.Removed != 1 || d.Partial {
		t.Errorf("deep JSON: %d, %d, %.300s", d.Added, d.Removed, d.text())
	}
	if d := diff("long-2", "s", "long-1"); !d.Cut || d.Partial || d.Added != 300_000 || len(d.Lines) != 2000 {
		t.Errorf("long texts: %d added, %d lines, cut %v, partial %v", d.Added, len(d.Lines), d.Cut, d.Partial)
	}
	in.call("s", "much-1", "logs", textArgs{Lines: 30_000})
	in.call("s", "much-2", "logs", textArgs{Lines: 40_000})
	if d := diff("much-2", "s", "much-1"); !d.Partial || len(d.Lines) > 0 {
		t.Errorf("more than a MiB: %d added, partial %v", d.Added, d.Partial)
	}
	if d := diff("wide-1", "other", "fails"); d.Removed == 0 || d.Added != 1 || len(d.text()) > 1200 {
		t.Errorf("a wide line: %s", d.text())
	}
	if d := diff("old", "s", "old"); d.Lines == nil || len(d.Lines) > 0 {
		t.Errorf("the same result: %+v", d)
	}
	in.begin("s", "runs", "shell", textArgs{})
	for path, want := range map[string]int{"old/diff": 400, "old/diff?with=new": 400, "old/diff?with_session=s&with=nobody": 404, "nobody/diff?with_session=s&with=old": 404, "old/diff?with_session=s&with=runs": 404} {
		if status, body := in.request("GET", "/api/calls/s/"+path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// The page of a call compares its result with another one of the tool. Hostile lines stay texts.
func TestDiffOnThePage(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.call("harbour", "toolu_alone", "grep", textArgs{Text: "x"})
	in.call("harbour", "toolu_old", "read_file", textArgs{Text: "crane 1\ncrane 2\n" + hostile + "\n" + strings.Repeat("same\n", 20) + "end"})
	in.call("night", "toolu_new", "read_file", textArgs{Text: "crane 1\ncrane 3\n" + strings.Repeat("same\n", 20) + "END"})
	b := browse(t, in, 1440, 900)
	press := func() {
		b.until("[...document.querySelectorAll('.compare button')].some(b => b.innerText === 'Compare with another result')")
		b.eval("document.querySelector('.compare button').click()")
	}
	b.open("calls/harbour/toolu_alone", "Attempt")
	press()
	b.shows("No other result of grep is among")
	b.open("calls/night/toolu_new", "crane 3")
	press()
	b.until("document.querySelector('.compare select')?.options.length === 2")
	choose := func() {
		b.eval(`(s => { s.value = "0"; s.dispatchEvent(new Event("change")) })(document.querySelector(".compare select"))`)
		b.shows("2 lines only here, 3 lines only in the other result")
	}
	choose()
	if got := b.eval("[...document.querySelectorAll('.diff > div:not(.equal)')].map(d => d.className + ' ' + d.innerText.replace(/\\s+/g, ' ').slice(0, 14))"); got != "removed 2 \u2212 crane 2,removed 3 \u2212 <img src=x,added 2 + crane 3,gap \u22ef,removed 24 \u2212 end,added 23 + END" {
		t.Errorf("the diff is %s", got)
	}
	if found := b.eval(`[...document.querySelectorAll("main script, main img, main svg, [onerror], [onload]")].length + " " + window.pwned`); found != "0 undefined" {
		t.Errorf("elements and effects of the text: %s", found)
	}
	b.accessible()
	b.screenshot("diff")
	b.run(chromedp.EmulateViewport(390, 844))
	bustest.WaitUntil(t, "the width of a phone", func() bool { return b.eval("document.documentElement.scrollWidth > innerWidth") == "false" })
	b.accessible()
}

package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

type changes struct {
	Changed, Failed int
	Error           string
	Next            uint64
}

// post decodes the answer to a bulk request.
func (in *installation) change(path, body string) (c changes) {
	in.t.Helper()
	status, answer := in.request("POST", path, body)
	if status != http.StatusOK {
		in.t.Fatalf("POST %s: %d %s", path, status, answer)
	}
	decode(in.t, answer, &c)
	return c
}

func (in *installation) letter(kind, name, subject, reason string) {
	in.t.Helper()
	body, err := bus.Encode(dead.Letter{Kind: kind, Name: name, Reason: reason, Subject: subject, ID: "id-" + reason, Body: []byte(`{}`)})
	if err == nil {
		_, err = in.bus.Publish(in.t.Context(), bus.Message{Subject: in.bus.Dead(kind, name), Body: body})
	}
	if err != nil {
		in.t.Fatal(err)
	}
}

// Dead letters are found by kind and text, and retried or removed: the selected ones, or all
// that match up to the newest one that the user saw.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	in := &installation{t: t, bus: bustest.New(t)}
	in.serve(console.Config{})
	for i := range 120 {
		in.letter(bus.DeadCall, "x", in.bus.Call("idle", "x", "s", fmt.Sprint("c", i)), fmt.Sprintf("Reason-%03d of many", i))
	}
	in.letter(bus.DeadNotification, "log", in.bus.NotifyAny("log"), "no such chat")
	in.letter(bus.DeadCall, "x", in.bus.NotifyAny("phone"), "forged of many") // of another kind than its subject
	type page struct {
		Dead []struct {
			Number uint64
			Name   string
		}
		Next uint64
	}
	if p := get[page](in, "/api/dead?kind=notification"); len(p.Dead) != 1 || p.Dead[0].Name != "log" {
		t.Errorf("of a kind: %+v", p)
	}
	if p := get[page](in, "/api/dead?text=reason-11"); len(p.Dead) != 10 || p.Next != 0 {
		t.Errorf("with a text: %+v", p)
	}
	if p := get[page](in, "/api/dead"); len(p.Dead) != 100 || len(get[page](in, fmt.Sprint("/api/dead?before=", p.Next)).Dead) != 22 {
		t.Errorf("in pages: %d", len(p.Dead))
	}
	for _, bad := range []string{`{}`, `{"numbers":[1],"all":true}`, `{"numbers":["x"]}`, `{"numbers":[` + strings.Repeat("1,", 500) + `1]}`} {
		if status, body := in.request("POST", "/api/dead/remove", bad); status != http.StatusBadRequest {
			t.Errorf("%.40s: %d %s", bad, status, body)
		}
	}
	if c := in.change("/api/dead/remove", `{"numbers":[1,3,3]}`); c != (changes{Changed: 2}) {
		t.Errorf("remove two: %+v", c)
	}
	if c := in.change("/api/dead/retry", `{"all":true,"text":"of many","until":119}`); c.Changed != 117 || c.Failed != 0 {
		t.Errorf("retry those that the user saw: %+v", c)
	}
	if n := bustest.Messages(t, in.bus, bus.Calls); n != 117 {
		t.Errorf("%d calls were published again", n)
	}
	if c := in.change("/api/dead/retry", `{"all":true,"kind":"call","until":999}`); c.Changed != 1 || c.Failed != 1 || !strings.Contains(c.Error, "do not match its subject") {
		t.Errorf("retry with a forged one: %+v", c)
	}
	if c := in.change("/api/dead/remove", `{"all":true,"until":999}`); c.Changed != 2 || bustest.Messages(t, in.bus, bus.Dead) != 0 {
		t.Errorf("remove all: %+v", c)
	}
}

// Calls that run, wait in a queue without a worker, or wait for an approval are cancelled: the
// selected ones, or all that match.
func TestManyCancellations(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	in.begin("a", "runs-1", "shell", textArgs{})
	in.begin("a", "runs-2", "shell", textArgs{})
	in.begin("b", "runs-3", "shell", textArgs{})
	in.ask("b", "asks", textArgs{})
	for i := range 5 {
		if _, err := in.bus.Publish(t.Context(), bus.Message{Subject: in.bus.Call("gpu", "train", "a", fmt.Sprint("waits-", i)), Body: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.bus.Publish(t.Context(), bus.Message{Subject: in.bus.Result("a", "waits-1"), Body: []byte(`{"id":"waits-1","session":"a","tool":"train","outcome":"completed"}`)}); err != nil {
		t.Fatal(err) // its call waits although it has a result
	}
	state := func(session, id string) task.State {
		return get[struct{ Task task.Task }](in, "/api/calls/"+session+"/"+id).Task.State
	}
	if c := in.change("/api/calls/cancel", `{"calls":[{"session":"a","id":"runs-1"},{"session":"a","id":"waits-0"},{"session":"a","id":"nothing"}]}`); c.Changed != 2 || c.Failed != 1 || c.Error == "" {
		t.Errorf("selected: %+v", c)
	}
	if c := in.change("/api/calls/cancel", `{"all":true,"text":"WAITS"}`); c != (changes{Changed: 3}) || state("a", "waits-4") != task.Cancelled || state("a", "runs-2") != task.Running {
		t.Errorf("all with a text: %+v", c)
	}
	if c := in.change("/api/calls/cancel", `{"all":true}`); c != (changes{Changed: 3}) {
		t.Errorf("all: %+v", c)
	}
	for _, call := range []string{"a/runs-2", "b/runs-3", "b/asks"} {
		session, id, _ := strings.Cut(call, "/")
		if s := state(session, id); s != task.Cancelled {
			t.Errorf("%s is %s", call, s)
		}
	}
}

// The buttons for several calls and dead letters change those that are selected, or all that match
// the filter.
func TestBulkButtons(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	for i := range 3 {
		in.begin("s", fmt.Sprint("run-", i), "shell", textArgs{})
		in.letter(bus.DeadCall, "x", in.bus.Call("idle", "x", "s", fmt.Sprint("c", i)), fmt.Sprint("reason ", i))
	}
	b := browse(t, in, 390, 844)
	click := func(button string) {
		t.Helper()
		find := fmt.Sprintf(`[...document.querySelectorAll("main button, dialog button")].findLast(b => b.innerText === %q)`, button)
		b.until("!!" + find)
		b.eval(find + ".click()")
	}
	b.open("now", "3 calls are running")
	b.until(`document.querySelectorAll(".pick-box").length === 3`)
	b.eval(`document.querySelector("[aria-label='Select shell run-1']").click()`)
	click("Cancel 1 selected")
	click("Cancel")
	b.until(`document.querySelectorAll(".pick-box").length === 2`)
	b.search("RUN-2")
	b.until(`document.querySelectorAll(".pick-box").length === 1`)
	b.press("x") // is a letter of the filter, which now matches nothing
	b.until(`document.querySelector(".bulk").hidden`)
	b.press("\b")
	click("Cancel all")
	click("Cancel")
	bustest.WaitUntil(t, "one call to be left", func() bool {
		running := get[struct{ Running []task.RunningCall }](in, "/api/running").Running
		return len(running) == 1 && running[0].ID == "run-0"
	})

	b.open("dead", "reason 0")
	b.eval(`document.querySelectorAll(".pick-box input")[1].click()`) // the newest is the first
	click("Retry 1 selected")
	click("No")
	click("Retry 1 selected")
	click("Retry")
	b.shows("1 dead letter published again.")
	b.until(`document.querySelectorAll(".pick-box").length === 2`)
	b.search("REASON 2")
	b.until(`document.querySelectorAll(".pick-box").length === 1`)
	b.accessible()
	click("Remove all")
	click("Remove")
	b.shows("No dead letter matches")
	if letters := get[struct{ Dead []dead.Stored }](in, "/api/dead").Dead; len(letters) != 1 || letters[0].Reason != "reason 0" {
		t.Errorf("left: %+v", letters)
	}
}

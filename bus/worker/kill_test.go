//go:build unix

package worker_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// outcome is the expected end of a killed call: the outcomes of its result and of
// its completion ("" for none), and how often it may have run.
type outcome struct {
	result, completion tools.Outcome
	min, max           int
}

// If a worker is killed at any step, another worker completes the call with one
// result. Once-only tools run at most once.
func TestKillAtEachStep(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	again := tools.Completed // idempotent and keyed tools always complete
	cases := []struct {
		step        string
		async       bool
		again, once outcome
	}{
		{"decode", false, outcome{again, "", 1, 1}, outcome{tools.Completed, "", 1, 1}},
		{"claim", false, outcome{again, "", 1, 1}, outcome{tools.Completed, "", 1, 1}},
		{"run", false, outcome{again, "", 1, 1}, outcome{tools.Unknown, "", 0, 0}},
		{"offload", false, outcome{again, "", 2, 2}, outcome{tools.Unknown, "", 1, 1}},
		{"publish", false, outcome{again, "", 2, 2}, outcome{tools.Unknown, "", 1, 1}},
		{"report", false, outcome{again, "", 1, 1}, outcome{tools.Completed, "", 1, 1}},
		{"ack", false, outcome{again, "", 1, 1}, outcome{tools.Completed, "", 1, 1}},

		{"decode", true, outcome{tools.Async, again, 1, 1}, outcome{tools.Async, tools.Completed, 1, 1}},
		{"claim", true, outcome{tools.Async, again, 1, 1}, outcome{tools.Async, tools.Completed, 1, 1}},
		{"run", true, outcome{tools.Async, again, 1, 1}, outcome{tools.Async, tools.Unknown, 0, 0}},
		// The tool may or may not have started when its worker dies.
		{"offload", true, outcome{tools.Async, again, 1, 2}, outcome{tools.Async, tools.Unknown, 0, 1}},
		{"publish", true, outcome{tools.Async, again, 1, 2}, outcome{tools.Async, tools.Unknown, 0, 1}},
		{"ack", true, outcome{tools.Async, again, 1, 2}, outcome{tools.Async, tools.Unknown, 0, 1}},
		{"offload:2", true, outcome{tools.Async, again, 2, 2}, outcome{tools.Async, tools.Unknown, 1, 1}},
		{"publish:2", true, outcome{tools.Async, again, 2, 2}, outcome{tools.Async, tools.Unknown, 1, 1}},
		{"ack:2", true, outcome{tools.Async, again, 1, 1}, outcome{tools.Async, tools.Completed, 1, 1}},
	}
	type killed struct {
		id   string
		want outcome
	}
	var (
		calls  []killed
		queues []string
	)
	for _, c := range cases {
		for _, effect := range effects {
			tool, want := string(effect), c.again
			if effect == tools.Once {
				want = c.once
			}
			if c.async {
				tool = "async_" + tool
			}
			id := tool + "-" + strings.ReplaceAll(c.step, ":", "-")
			calls, queues = append(calls, killed{id, want}), append(queues, id)
			victim := startChild(t, url, log.dir, id, c.step)
			submit(t, b, short(id, tool), fmt.Sprintf(`{"id":%q}`, id))
			victim.awaitKilled(t)
		}
	}
	// The second worker of one call dies while it resumes the call.
	second := startChild(t, url, log.dir, "once-publish", "resume")
	second.awaitKilled(t)

	notified := startConsoleAt(t, url)
	start(t, b, worker.Config{Queues: queues, AskTimeout: killAskTimeout}, log.tools()...)
	waitEmpty(t, b)
	runs := log.count(t)
	notifications := map[string]int{} // of each call
	for range calls {
		notifications[notified.next(t).Call]++
	}
	for _, c := range calls {
		t.Run(c.id, func(t *testing.T) {
			result, ok := event(t, b, b.Result("default", c.id))
			if !ok || result.Outcome != c.want.result || result.IsError != (c.want.result == tools.Unknown) {
				t.Errorf("result %+v, want %s", result, c.want.result)
			}
			completion, ok := event(t, b, b.Completion("default", c.id))
			if ok != (c.want.completion != "") || completion.Outcome != c.want.completion {
				t.Errorf("completion %+v, want %q", completion, c.want.completion)
			}
			if notifications[c.id] != 1 {
				t.Errorf("%d notifications", notifications[c.id])
			}
			if n := runs["run "+c.id]; n < c.want.min || n > c.want.max {
				t.Errorf("ran %d times, want %d to %d", n, c.want.min, c.want.max)
			}
		})
	}
	noDeadLetters(t, b)
}

// Workers are killed at random times while clients publish calls: each call gets one
// result, each async call also one completion, and once-only tools run at most once. Half of
// the calls have the long form. STEVEDORE_KILLS is the number of kills; there are ten calls for each.
func TestKillAtRandom(t *testing.T) {
	t.Parallel()
	kills := 5 // the simulator and "make kill" do more
	if s := os.Getenv("STEVEDORE_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	var toolset []string
	for _, effect := range effects {
		toolset = append(toolset, string(effect), "async_"+string(effect))
	}
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	workers := []*child{startChild(t, url, log.dir, "default", ""), startChild(t, url, log.dir, "default", "")}
	calls := 10 * kills
	sent := 0
	send := func(n int) {
		for ; n > 0 && sent < calls; n-- {
			tool := toolset[sent%len(toolset)]
			id := fmt.Sprintf("%s-%d", tool, sent)
			subject := short("default", tool)
			if sent/len(toolset)%2 == 0 {
				subject = b.Call("default", tool, "default", id)
			}
			submit(t, b, subject, fmt.Sprintf(`{"id":%q}`, id))
			sent++
		}
	}
	send(50) // enough to keep both workers busy
	answered := make(map[string]tools.Outcome)
	for len(answered) < calls {
		res, _ := bustest.Next[tools.ResultEvent](t, results)
		// The subscription also receives second results, which the stream rejects.
		if _, known := answered[res.ID]; known {
			continue
		}
		answered[res.ID] = res.Outcome
		send(1)
		if len(answered)%10 == rand.IntN(10) && kills > 0 {
			kills--
			i := rand.IntN(len(workers))
			workers[i].kill()
			workers[i] = startChild(t, url, log.dir, "default", "")
		}
	}
	waitEmpty(t, b)

	runs := log.count(t)
	unknown := 0
	for id := range answered {
		result, ok := event(t, b, b.Result("default", id))
		completion, completed := event(t, b, b.Completion("default", id))
		once := strings.Contains(id, "once")
		last := result
		if result.Outcome == tools.Async {
			last = completion
		}
		ran := runs["run "+id]
		switch {
		case !ok, completed != (result.Outcome == tools.Async):
			t.Errorf("%s: result %+v, completion %+v", id, result, completion)
		case last.Outcome == tools.Completed && ran == 0, once && ran > 1:
			t.Errorf("%s: %s, ran %d times", id, last.Outcome, ran)
		case last.Outcome == tools.Unknown && once:
			unknown++
		case last.Outcome != tools.Completed:
			t.Errorf("%s: outcome %s", id, last.Outcome)
		}
	}
	noDeadLetters(t, b)
	t.Logf("%d calls, %d of them unknown", calls, unknown)
}

// An async call whose workers all die becomes a dead letter, and its completion says
// so. An async tool whose panic is not recovered is an example.
func TestDeadLetterOfAsyncCall(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	notified := startConsoleAt(t, url)
	want := map[string]tools.Outcome{"async_keyed": tools.Failed, "async_once": tools.Unknown}
	for tool := range want {
		msg := bus.Message{Subject: b.Call(tool, tool, "default", tool), Body: fmt.Appendf(nil, `{"id":%q}`, tool)}
		if _, err := b.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		bustest.Fail(t, b, tool, 2)
		startChild(t, url, log.dir, tool, "ack").awaitKilled(t) // after the first result
		recordStart(t, b, tool)                                 // by the worker that died before
	}
	start(t, b, worker.Config{Queues: slices.Collect(maps.Keys(want)), AskTimeout: killAskTimeout, MaxAttempts: 3}, log.tools()...)
	waitEmpty(t, b)
	texts := map[string]string{}
	for range want {
		n := notified.next(t)
		texts[n.Call] = n.Text
	}
	for tool, outcome := range want {
		result, _ := event(t, b, b.Result("default", tool))
		completion, _ := event(t, b, b.Completion("default", tool))
		if result.Outcome != tools.Async || completion.Outcome != outcome || !completion.IsError {
			t.Errorf("%s: result %+v, completion %+v", tool, result, completion)
		}
	}
	if text := texts["async_keyed"]; !strings.Contains(text, "gave up on the call: delivered 3 times") {
		t.Errorf("notified %q", text)
	}
	if text := texts["async_once"]; !strings.Contains(text, "unknown") {
		t.Errorf("notified %q", text)
	}
}

// A worker that is suspended for longer than its lease and then continues changes no
// result, and runs no once-only call twice.
func TestSuspendedWorker(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	suspended := startChild(t, url, log.dir, "default", "")
	want := map[string]tools.Outcome{"once": tools.Unknown, "keyed": tools.Completed, "idempotent": tools.Completed}
	for tool := range want {
		submit(t, b, short("default", tool), fmt.Sprintf(`{"id":%q,"args":{"gate":true}}`, tool))
	}
	bustest.WaitUntil(t, "the calls to run", func() bool { return len(log.count(t)) == len(want) })
	if err := suspended.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	start(t, b, worker.Config{Name: "survivor", AskTimeout: killAskTimeout}, log.tools()...)
	bustest.WaitUntil(t, "results", func() bool {
		for tool := range want {
			if _, ok := event(t, b, b.Result("default", tool)); !ok {
				return false
			}
		}
		return true
	})

	if err := os.WriteFile(filepath.Join(log.dir, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := suspended.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the tools of the suspended worker to return", func() bool { return len(log.count(t)) == 2*len(want) })
	if err := suspended.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := suspended.cmd.Wait(); err != nil { // it has settled all its calls
		t.Fatal(err)
	}
	waitEmpty(t, b)
	runs := log.count(t)
	for tool, outcome := range want {
		res, _ := event(t, b, b.Result("default", tool))
		if res.Outcome != outcome || res.Worker != "survivor" {
			t.Errorf("%s: result %+v", tool, res)
		}
	}
	if runs["run once"] != 1 || runs["run keyed"] != 2 || runs["run idempotent"] != 2 {
		t.Errorf("runs %v", runs)
	}
	noDeadLetters(t, b)
}

// Workers die while they hold calls that they have not started. These deliveries are not
// attempts: no call becomes a dead letter or unknown.
func TestUnstartedDeliveriesAreNotAttempts(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	const calls = 16 // as many as a worker has slots
	var queues []string
	for _, effect := range effects {
		queues = append(queues, string(effect))
		for i := range calls {
			submit(t, b, short(string(effect), string(effect)), fmt.Sprintf(`{"id":"%s-%d"}`, effect, i))
		}
	}
	for _, step := range []string{"decode", "decode", "resume", "claim"} {
		var victims []*child
		for _, queue := range queues {
			victims = append(victims, startChild(t, url, log.dir, queue, step))
		}
		for _, victim := range victims {
			victim.awaitKilled(t)
		}
	}
	start(t, b, worker.Config{Queues: queues, AskTimeout: killAskTimeout, MaxAttempts: 2}, log.tools()...)
	waitEmpty(t, b)
	runs := log.count(t)
	for _, effect := range effects {
		for i := range calls {
			id := fmt.Sprintf("%s-%d", effect, i)
			if result, _ := event(t, b, b.Result("default", id)); result.Outcome != tools.Completed || runs["run "+id] != 1 {
				t.Errorf("%s ran %d times: %+v", id, runs["run "+id], result)
			}
		}
	}
	noDeadLetters(t, b)
}

// A call that kills its workers becomes a dead letter after MaxAttempts starts.
func TestPoisonCall(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	submit(t, b, short("default", "keyed"), `{"id":"a","channel":"console","args":{"kill":true}}`)
	for range 3 {
		startChild(t, url, log.dir, "default", "").awaitKilled(t)
	}
	start(t, b, worker.Config{AskTimeout: killAskTimeout, MaxAttempts: 3}, log.tools()...)
	waitEmpty(t, b)
	result, _ := event(t, b, b.Result("default", "a"))
	if runs := log.count(t)["run a"]; runs != 3 || result.Error == nil || result.Error.Code != tools.CodeGivenUp {
		t.Errorf("result %+v after %d runs", result, runs)
	}
	if !strings.HasPrefix(result.ForUser, "keyed did not succeed: the worker gave up") {
		t.Errorf("the user is told %q", result.ForUser)
	}
	if n := bustest.Messages(t, b, bus.Dead); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

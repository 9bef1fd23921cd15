package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A loop is suspended at each of its steps. Another loop continues the run and ends
// it. Then the first one must append nothing and return the same outcome.
func TestZombieIsFencedOff(t *testing.T) {
	for held := 1; ; held++ {
		var mu sync.Mutex
		runs := map[string]int{}
		s := newStage(t, newTool(t, "say", tools.Once, func(_ context.Context, call tools.Call, in sayArgs) *tools.Result {
			mu.Lock()
			defer mu.Unlock()
			runs[call.ID]++
			return tools.UserResult(fmt.Sprint("said ", in.N))
		}))
		script := parseScript(t, asks("say", `{"n":1}`, `{"n":2}`), asks("say", `{"n":3}`), `{"text":"done"}`)
		call := tools.Call{ID: "r", Session: "s"}

		steps, reached, release := 0, make(chan struct{}), make(chan struct{})
		sent := &outbox{}
		zombie := stepped{s.agent(script, agent.Config{SendOutput: sent.send, PollInterval: time.Millisecond}), func(string) {
			mu.Lock()
			steps++
			mine := steps == held
			mu.Unlock()
			if mine {
				close(reached)
				<-release
			}
		}}
		type ended struct {
			agent.Outcome
			err error
		}
		first := make(chan ended, 1)
		go func() {
			o, err := zombie.Run(t.Context(), call, agent.Text("go"))
			first <- ended{o, err}
		}()
		select {
		case <-reached:
		case end := <-first: // fewer steps than that
			if end.err != nil || held < 12 {
				t.Fatalf("held %d: %+v", held, end)
			}
			return
		}
		second := run(t, s.agent(script, agent.Config{SendOutput: sent.send}), "s", "r", "go")
		before := len(s.entries(t, "s"))
		close(release)
		end := <-first
		if end.err != nil || end.Reason != second.Reason || end.ForUser != second.ForUser || second.ForUser != "done" || sent.count("r-t2-0") != 1 || len(sent.texts) != 1 {
			t.Errorf("held at step %d: the zombie ended with %+v, the other with %+v", held, end, second)
		}
		if after := len(s.entries(t, "s")); after != before {
			t.Errorf("held at step %d: the zombie added %d entries", held, after-before)
		}
		for id, n := range runs {
			if n != 1 {
				t.Errorf("held at step %d: %s ran %d times", held, id, n)
			}
		}
	}
}

// A loop that lost its run to another loop ends although that one has not ended the run, and
// appends nothing more: while it waited, it would look as if it ran the call.
func TestFencedLoopEnds(t *testing.T) {
	s := newStage(t)
	script := parseScript(t, `{"text":"done"}`)
	call := tools.Call{ID: "r", Session: "s"}
	asked := false
	_, err := stepped{s.agent(script, agent.Config{StaleAfter: time.Hour}), func(step string) {
		if step != "log_turn" || asked {
			return
		}
		asked = true
		defer func() { _ = recover() }()
		_, err := stepped{s.agent(script, agent.Config{}), func(step string) {
			if step == "log_turn" {
				panic("the other loop dies")
			}
		}}.Run(t.Context(), call, agent.Text("go"))
		t.Errorf("the other loop did not die: %v", err)
	}}.Run(t.Context(), call, agent.Text("go"))
	if !errors.Is(err, tools.ErrTakenOver) {
		t.Errorf("the fenced loop ended with %v, want %v", err, tools.ErrTakenOver)
	}
	if n := len(s.entries(t, "s")); n != 2 {
		t.Errorf("the conversation has %d entries, want those of the two starts", n)
	}
	if o := run(t, s.agent(script, agent.Config{}), "s", "r", "go"); o.Reply != "done" {
		t.Errorf("the next loop: %+v", o)
	}
}

// The runs of one session follow each other, and each one sees the earlier ones.
func TestOneSessionManyMessages(t *testing.T) {
	s := newStage(t, newTool(t, "say", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result {
		return tools.NewToolResult("ok")
	}))
	const messages = 6
	var lines []string
	for range messages {
		lines = append(lines, asks("say", `{}`, `{}`), `{"text":"done"}`)
	}
	var group sync.WaitGroup
	for i := range messages {
		group.Go(func() {
			o, err := s.agent(parseScript(t, lines...), agent.Config{PollInterval: time.Millisecond}).
				Run(t.Context(), tools.Call{ID: fmt.Sprint("r", i), Session: "s"}, agent.Text("go"))
			if err != nil || o.Reason != agent.Done || o.Turns != 2 {
				t.Errorf("run %d: %+v, %v", i, o, err)
			}
		})
	}
	group.Wait()
	entries := s.entries(t, "s")
	for i, e := range entries {
		if want := entries[i-i%5].Run; e.Run != want { // user, turn, results, turn, end
			t.Fatalf("entry %d is of run %s, in the middle of %s", i, e.Run, want)
		}
	}
	checkPairing(t, agent.Messages(entries))
}

// A run that no process continues does not block its session. The next run ends it
// immediately if its call has a result, and otherwise after StaleAfter.
func TestAbandonedRun(t *testing.T) {
	yes := func(context.Context, tools.CallKey) (bool, error) { return true, nil }
	no := func(context.Context, tools.CallKey) (bool, error) { return false, nil }
	ended := func(reason agent.Reason) func(context.Context, tools.CallKey) (agent.Reason, error) {
		return func(context.Context, tools.CallKey) (agent.Reason, error) { return reason, nil }
	}
	for name, test := range map[string]struct {
		cfg    agent.Config
		reason agent.Reason
		text   string
	}{
		"has result":   {agent.Config{EndOf: ended(agent.Abandoned), IsRunning: yes}, agent.Abandoned, "send the prompt again"},
		"is cancelled": {agent.Config{EndOf: ended(agent.Cancelled), IsRunning: yes}, agent.Cancelled, "cancelled"},
		"stale":        {agent.Config{EndOf: ended(""), IsRunning: no, StaleAfter: time.Millisecond}, agent.Abandoned, "send the prompt again"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := test.cfg
			s := newStage(t)
			ctx, cancel := context.WithCancel(t.Context())
			script := parseScript(t, `{"text":"a"}`, `{"text":"b"}`)
			_, err := stepped{s.agent(script, agent.Config{}), func(step string) {
				if step == "ask" {
					cancel()
				}
			}}.Run(ctx, tools.Call{ID: "dead", Session: "s"}, agent.Text("go"))
			if err == nil {
				t.Fatal("the first run was not interrupted")
			}
			cfg.PollInterval = time.Millisecond
			if o := run(t, s.agent(script, cfg), "s", "next", "hello?"); o.Reason != agent.Done {
				t.Errorf("the next run: %+v", o)
			}
			if o := run(t, s.agent(script, cfg), "s", "dead", "go"); o.Reason != test.reason || !strings.Contains(o.ForUser, test.text) {
				t.Errorf("the dead run: %+v", o)
			}
		})
	}
}

// A run waits for another one that a process executes, however stale it is.
func TestWaitForRunningRun(t *testing.T) {
	s := newStage(t)
	hold, asked := make(chan struct{}), make(chan struct{}, 100)
	script := parseScript(t, `{"text":"a"}`, `{"text":"b"}`)
	first := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := stepped{s.agent(script, agent.Config{}), func(step string) {
			if step == "ask" {
				close(started)
				<-hold
			}
		}}.Run(t.Context(), tools.Call{ID: "slow", Session: "s"}, agent.Text("go"))
		first <- err
	}()
	<-started
	second := make(chan agent.Outcome, 1)
	go func() {
		o, err := s.agent(script, agent.Config{PollInterval: time.Millisecond, StaleAfter: time.Nanosecond, IsRunning: func(context.Context, tools.CallKey) (bool, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true, nil
		}}).Run(t.Context(), tools.Call{ID: "next", Session: "s"}, agent.Text("and?"))
		if err != nil {
			t.Error(err)
		}
		second <- o
	}()
	for range 3 {
		<-asked
	}
	close(hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if o := <-second; o.Reply != "b" {
		t.Errorf("the second run: %+v", o)
	}
}

// A run that waits for another one reads only what that one adds. If the conversation is deleted and
// begins anew meanwhile, the run sees nothing of the old one.
func TestWaitReadsNewEntries(t *testing.T) {
	const old = 100
	notices := func(title string) (log [][]byte) {
		for i := range old {
			log = append(log, fmt.Appendf(nil, `{"kind":"notice","notice":{"id":"%d","title":%q}}`, i, title))
		}
		return log
	}
	for _, replaced := range []bool{false, true} {
		s := newStage(t)
		for i, entry := range notices("secret") {
			if _, err := s.log.Append(t.Context(), "s", uint64(i), entry); err != nil {
				t.Fatal(err)
			}
		}
		started, hold, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := stepped{s.agent(parseScript(t, `{"text":"a"}`), agent.Config{}), func(step string) {
				if step == "ask" {
					close(started)
					<-hold
				}
			}}.Run(t.Context(), tools.Call{ID: "slow", Session: "s"}, agent.Text("go"))
			first <- err
		}()
		<-started
		before := s.log.entriesRead()
		asked, second := make(chan struct{}), make(chan agent.Outcome, 1)
		model := &recorder{Provider: parseScript(t, `{"text":"a"}`, `{"text":"b"}`)}
		if replaced {
			model.Provider = parseScript(t, `{"text":"b"}`)
		}
		go func() {
			o, err := s.agent(model, agent.Config{PollInterval: time.Millisecond, EndOf: func(context.Context, tools.CallKey) (agent.Reason, error) {
				select {
				case asked <- struct{}{}:
				case <-hold:
				}
				return "", nil
			}}).Run(t.Context(), tools.Call{ID: "next", Session: "s"}, agent.Text("and?"))
			if err != nil {
				t.Error(err)
			}
			second <- o
		}()
		for range 20 {
			<-asked
		}
		if n := s.log.entriesRead() - before; n > 2*old {
			t.Errorf("the run read %d entries of %d while it waited", n, old)
		}
		want := "secret"
		if replaced {
			want = "harmless"
			s.log.replace("s", append(notices(want), []byte(`{"kind":"user","run":"slow"}`), []byte(`{"kind":"end","run":"slow","end":{"reason":"done"}}`)))
		}
		close(hold)
		if o := <-second; o.Reply != "b" {
			t.Errorf("the second run: %+v", o)
		}
		if shown := fmt.Sprint(model.requests[0].Messages); strings.Contains(shown, "secret") == replaced || !strings.Contains(shown, want) {
			t.Errorf("replaced %v: the model sees %.300s", replaced, shown)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	}
}

// A run that waits for an earlier prompt, which no worker runs yet, does not read the conversation again at each look.
func TestWaitForAnEarlierPrompt(t *testing.T) {
	const old, looks = 100, 20
	s := newStage(t)
	for i := range old {
		if _, err := s.log.Append(t.Context(), "s", uint64(i), fmt.Appendf(nil, `{"kind":"notice","notice":{"id":"%d"}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	looked := 0
	run(t, s.agent(parseScript(t, `{"text":"a"}`), agent.Config{PollInterval: time.Millisecond, Earlier: func(context.Context, string, string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			if looked++; looked <= looks {
				yield("earlier", nil)
			}
		}
	}}), "s", "r", "go")
	if n := s.log.entriesRead(); n > 2*old {
		t.Errorf("the run read %d entries of %d in %d looks", n, old, looked)
	}
}

// A fresh run sees no earlier runs. The next run sees the fresh one.
func TestFreshRun(t *testing.T) {
	s := newStage(t)
	for i, want := range []int{1, 1, 3} { // messages in the request
		model := &recorder{Provider: parseScript(t, `{"text":"a"}`, `{"text":"b"}`)}
		run(t, s.agent(model, agent.Config{Fresh: i == 1}), "s", fmt.Sprint("r", i), "go")
		if got := len(model.requests[0].Messages); got != want {
			t.Errorf("run %d: %d messages, want %d", i, got, want)
		}
	}
}

// Reading any log neither panics nor returns two messages of one role in a row.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"kind":"user","run":"r","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}
{"kind":"assistant","run":"r","message":{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]}}
{"kind":"results","run":"r","answers":[{"call":"r-t1-0","for_llm":"ok"}]}
{"kind":"shelved","run":"r","shelved":{"r-t1-0":"ref"}}
{"kind":"end","run":"r"}`))
	f.Add([]byte(`{"kind":"user","run":"r"}
{"kind":"results","run":"r","answers":[{"call":"x"}]}
{"kind":"end","run":"q","end":null}`))
	f.Add([]byte(`{"kind":"user","run":"r","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}
{"kind":"assistant","run":"r","message":{"role":"assistant","content":[{"type":"text","text":"a"}]}}
{"kind":"compacted","run":"r","compaction":{"cut":1,"turns":1}}
{"kind":"compacted","run":"r","compaction":{"cut":9223372036854775807}}
{"kind":"compacted","run":"r","compaction":{"cut":-5}}
{"kind":"user","run":"q","fresh":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var entries []agent.Entry
		for line := range strings.Lines(string(data)) {
			if e, err := agent.DecodeEntry([]byte(line)); err == nil {
				entries = append(entries, e)
			}
		}
		messages := agent.Messages(entries)
		for i, m := range messages[:max(len(messages)-1, 0)] {
			if m.Role == messages[i+1].Role {
				t.Errorf("two messages of %s in a row", m.Role)
			}
		}
		agent.LastCall(entries)
	})
}

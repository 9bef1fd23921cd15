package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// unreliable is a script that fails until a time.
type unreliable struct {
	*provider.Script
	failure agent.ProviderError
	timeout time.Duration // of outages; 0 means the default

	mu    sync.Mutex
	until time.Time
	asked []time.Time
	full  int // requests that are not probes
}

func newUnreliable(t *testing.T, failure agent.ProviderError, until time.Time, lines ...string) *unreliable {
	t.Helper()
	script, err := provider.ParseScript([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return &unreliable{Script: script, failure: failure, until: until}
}

func (m *unreliable) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, time.Now())
	if !req.Probe {
		m.full++
	}
	if time.Now().Before(m.until) {
		failure := m.failure
		return agent.Response{}, &failure
	}
	return m.Script.Complete(ctx, req)
}

var overloaded = agent.ProviderError{Code: agent.CodeOverloaded, Status: 529, Message: "Overloaded", Retryable: true}

// kinds returns the kinds of the entries of a conversation.
func kinds(t *testing.T, b *bus.Bus, id string) map[agent.Kind]int {
	t.Helper()
	bodies, _, err := session.New(b).Read(t.Context(), tools.TokenOf(id), 0)
	if err != nil {
		t.Fatal(err)
	}
	n := map[agent.Kind]int{}
	for _, body := range bodies {
		e, err := agent.DecodeEntry(body)
		if err != nil {
			t.Fatal(err)
		}
		n[e.Kind]++
	}
	return n
}

// The provider is down for 40 minutes (of virtual time), and the workers restart in between.
// Runs, sub-agents and background tasks wait without a worker, show what they wait for, and
// each question is answered once.
func TestOutageOfTheProvider(t *testing.T) {
	slow.Test(t)
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		model := newUnreliable(t, overloaded, time.Now().Add(40*time.Minute),
			`{"for":"^plain"}`, `{"text":"plain answer"}`,
			`{"for":"^delegate"}`, `{"tools":[{"name":"subagent","input":{"task":"child"}}]}`, `{"expect":["born"],"text":"delegated"}`,
			`{"for":"^child"}`, `{"text":"born"}`)
		stop := startModel(t, b, model, worker.Config{Slots: 1})
		prompts := map[string]string{}
		for i := range 2 {
			prompts[fmt.Sprint("p", i)] = "plain"
			prompts[fmt.Sprint("d", i)] = "delegate"
		}
		var answers sync.WaitGroup
		for id, text := range prompts {
			answers.Go(func() {
				session := id[:len(id)-1] // of several runs
				event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt(session+"-"+id, id, text))
				want := map[string]string{"plain": "plain answer", "delegate": "delegated"}[text]
				if err != nil || event.ForLLM != want {
					t.Errorf("%s: %q, %v; want %q", id, event.ForLLM, err, want)
				}
			})
		}
		time.Sleep(20 * time.Minute)
		// A run that asks the provider in this moment has a call in the stream.
		bustest.WaitUntil(t, "a moment in which no run asks the provider", func() bool {
			return bustest.Messages(t, b, bus.Calls) == 0
		})
		for id := range prompts {
			got, err := task.Get(t.Context(), b, id[:len(id)-1]+"-"+id, id)
			if err != nil || got.State != task.Waiting || !strings.Contains(got.Text(), "waiting for the model") || !strings.Contains(got.Message, "Overloaded") {
				t.Errorf("during the outage: %q, %v", got.Text(), err)
			}
		}
		stop()
		startModel(t, b, model, worker.Config{Slots: 1})
		answers.Wait()
		if late := time.Since(model.until); late < 0 || late > time.Minute {
			t.Errorf("the last answer came %s after the outage", late)
		}
		// Each run asks once when it starts, after 5 s, 10 s, ..., and then each 50 s or a little more often.
		if n := len(model.asked); n > 4*65 {
			t.Errorf("%d requests to a provider that is down", n)
		}
		if model.full > 4+2+2+2 { // each run's first request, and each later turn
			t.Errorf("%d requests with all repetitions, of %d", model.full, len(model.asked))
		}
		for id, text := range prompts {
			n := kinds(t, b, id[:len(id)-1]+"-"+id)
			turns := map[string]int{"plain": 1, "delegate": 2}[text]
			if n[agent.KindAssistant] != turns || n[agent.KindUser] != 1 || n[agent.KindEnd] != 1 || n[agent.KindWaiting] == 0 {
				t.Errorf("%s has the entries %v", id, n)
			}
		}
		if parked, err := task.ListMoving(t.Context(), b, "*", time.Now().Add(time.Hour)); len(parked) > 0 || err != nil {
			t.Errorf("still parked: %v, %v", parked, err)
		}
	})
}

// The provider's Retry-After is respected. A run that waits for a parked run of its session
// is parked too, and follows it immediately.
func TestParkedRunsOfOneSession(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		limited := agent.ProviderError{Code: agent.CodeRateLimited, Status: 429, Message: "slow down", Retryable: true, RetryAfter: 3 * time.Hour}
		start := time.Now()
		model := newUnreliable(t, limited, start.Add(time.Minute), `{"for":"^q"}`, `{"text":"a"}`, `{"text":"a"}`)
		startModel(t, b, model, worker.Config{})
		var answers sync.WaitGroup
		for i := range 2 {
			answers.Go(func() {
				event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", fmt.Sprint("r", i), fmt.Sprint("q", i)))
				if err != nil || event.ForLLM != "a" {
					t.Errorf("%q, %v", event.ForLLM, err)
				}
			})
			time.Sleep(5 * time.Second)
		}
		time.Sleep(time.Hour)
		second, err := task.Get(t.Context(), b, "s", "r1")
		if err != nil || second.State != task.Waiting || !strings.Contains(second.Message, "the run r0 of this session") {
			t.Errorf("the second run: %q, %v", second.Text(), err)
		}
		answers.Wait()
		if took := time.Since(start); took < 3*time.Hour || took > 3*time.Hour+time.Minute {
			t.Errorf("the answers came after %s", took)
		}
		if len(model.asked) != 3 {
			t.Errorf("%d requests, want 3: %v", len(model.asked), model.asked)
		}
	})
}

// A permanent error fails at once. After an outage that is too long, the result names the
// provider's error. A parked run can be cancelled, with the sub-agent that it waits for.
func TestEndOfParkedRuns(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		start := time.Now()
		model := newUnreliable(t, overloaded, start.Add(100*time.Hour), `{"text":"never"}`)
		model.timeout = 40 * time.Minute
		stop := startModel(t, b, model, worker.Config{})
		event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "day", "q"))
		if err != nil || !event.IsError || event.Error.Code != agent.CodeOverloaded || !strings.Contains(event.ForLLM, "Overloaded (after 40m0s of attempts)") {
			t.Errorf("after 40 minutes: %+v, %v", event, err)
		}
		if took := time.Since(start); took < 40*time.Minute || took > time.Hour {
			t.Errorf("the run failed after %s", took)
		}
		stop()

		model = newUnreliable(t, agent.ProviderError{Code: agent.CodeBadKey, Status: 401}, start.Add(100*time.Hour), `{"text":"never"}`)
		stop = startModel(t, b, model, worker.Config{})
		began := time.Now()
		event, err = rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "key", "q"))
		if err != nil || event.Error == nil || event.Error.Code != agent.CodeBadKey || time.Since(began) > time.Minute {
			t.Errorf("a bad key: %+v, %v after %s", event, err, time.Since(began))
		}
		stop()

		model = newUnreliable(t, overloaded, start.Add(100*time.Hour), `{"text":"never"}`)
		delegating := newUnreliable(t, overloaded, start, `{"for":"^d"}`, `{"tools":[{"name":"subagent","input":{"task":"child"}}]}`, `{"text":"x"}`)
		startModel(t, b, childrenFail{delegating, model}, worker.Config{})
		done := make(chan tools.ResultEvent, 1)
		go func() {
			event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("c", "cancel", "d"))
			if err != nil {
				t.Error(err)
			}
			done <- event
		}()
		time.Sleep(10 * time.Minute)
		if _, err := task.Cancel(t.Context(), b, "c", "cancel", "a test"); err != nil {
			t.Fatal(err, <-done)
		}
		if event = <-done; event.Outcome != tools.Cancelled {
			t.Errorf("a cancelled run: %+v", event)
		}
		time.Sleep(time.Minute)
		if parked, err := task.ListMoving(t.Context(), b, "*", time.Now().Add(time.Hour)); len(parked) > 0 || err != nil {
			t.Errorf("after the cancellation, parked: %v, %v", parked, err)
		}
		if _, err := task.Cancel(t.Context(), b, "c", "cancel", "a test"); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("cancelled twice: %v", err)
		}
		// The conversations of both have no end, and their calls have a result.
		all, err := listAll(t.Context(), b, false)
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		for _, c := range all {
			if c.Session != "s" && c.State != string(agent.Cancelled) {
				t.Errorf("after the cancellation, %s is %s", c.Name, c.State)
			}
		}
		if _, err := remove(t.Context(), b, SessionRequest{Session: agent.SubagentSession(tools.Call{Session: "c", ID: "cancel-t1-0"})}); err != nil {
			t.Error(err)
		}
		// The session is free for the next prompt.
		event, err = rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("c", "next", "d"))
		if err == nil && event.Outcome == "" {
			t.Errorf("the next run: %+v", event)
		}
	})
}

// childrenFail asks another model for the turns of sub-agents.
type childrenFail struct {
	agent.Provider
	child agent.Provider
}

func (m childrenFail) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	if agent.TextOf(req.Messages[0].Content) == "child" {
		return m.child.Complete(ctx, req)
	}
	return m.Provider.Complete(ctx, req)
}

// unreachable is a state whose bus does not answer.
type unreachable struct{}

func (unreachable) Get(context.Context, string) (state.Fact, error) {
	return state.Fact{}, context.DeadlineExceeded
}

func (unreachable) Set(context.Context, map[string]string) error { return context.DeadlineExceeded }

// A message that could not be sent because the bus did not answer is not refused: the call
// runs again.
func TestMessageDuringAnOutage(t *testing.T) {
	b := bustest.New(t)
	n, err := notify.New(b, notify.Config{Facts: unreachable{}})
	if err != nil {
		t.Fatal(err)
	}
	m := builtin.Message{Key: "k", Session: "s", Channel: "console", ChatID: "c", Text: "hi", OtherChat: true}
	if _, err := (Sender{Notifier: n}).Send(t.Context(), m); !errors.Is(err, tools.ErrInterrupted) {
		t.Errorf("%v, want %v", err, tools.ErrInterrupted)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := (Sender{Notifier: n}).Send(ended, m); err == nil || errors.Is(err, tools.ErrInterrupted) {
		t.Errorf("after the end of the call: %v", err)
	}
}

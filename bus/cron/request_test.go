package cron_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// do executes a request in JSON.
func do(t *testing.T, jobs *cron.Jobs, by cron.Caller, key, request string) (cron.Answer, error) {
	t.Helper()
	var r cron.Request
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		t.Fatal(err)
	}
	return jobs.Do(t.Context(), by, key, r)
}

func TestRequests(t *testing.T) {
	jobs := cron.New(bustest.New(t))
	for _, step := range []struct{ session, request, want string }{
		{"alice", `{"action":"list"}`, "There are no cron jobs."},
		{"alice", `{"action":"add","name":"backup","cron":"30 9 * * 1-5","time_zone":"Europe/Berlin","tool":"shell","args":{"command":"make"},"channel":"telegram","chat_id":"7"}`, "Cron job added: backup\ncron \"30 9 * * 1-5\" in Europe/Berlin, calls shell \"make\", next 2"},
		{"alice", `{"action":"add","name":"tea","at":"20m","tool":"message","args":{"content":"Tea!"}}`, "Cron job added: tea\nat 2"},
		{"alice", `{"action":"list"}`, "tea: at 2"},
		{"bob", `{"action":"list"}`, "There are no cron jobs."},
		{"alice", `{"action":"get","name":"backup"}`, `Arguments: {"command":"make"}`},
		{"alice", `{"action":"update","name":"backup","every":"1h30m"}`, "Cron job updated: backup\nevery 1h30m, calls shell \"make\", next"},
		{"alice", `{"action":"get","name":"backup"}`, "Channel: telegram\nChat: 7"},
		{"alice", `{"action":"disable","name":"backup"}`, "Cron job disabled: backup\nevery 1h30m, calls shell \"make\", disabled"},
		{"alice", `{"action":"enable","name":"backup"}`, "Cron job enabled: backup"},
		{"alice", `{"action":"remove","name":"backup"}`, "Cron job removed: backup"},
		{"alice", `{"action":"add","name":"noon","at":"2099-07-01 09:00","time_zone":"Asia/Shanghai","tool":"x"}`, "at 2099-07-01T01:00:00Z"},
	} {
		answer, err := do(t, jobs, cron.Caller{Session: step.session}, "", step.request)
		if err != nil || !strings.Contains(answer.Text(), step.want) {
			t.Errorf("%s: %q, %v, want %q", step.request, answer.Text(), err, step.want)
		}
	}
}

func TestRequestRefusals(t *testing.T) {
	jobs := cron.New(bustest.New(t))
	if _, err := do(t, jobs, cron.Caller{Session: "alice"}, "", `{"action":"add","name":"job","every":"1h","tool":"x"}`); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ session, request, want, code string }{
		{"alice", `{"action":"explode"}`, "unknown action", tools.CodeInvalidArguments},
		{"alice", `{"action":"get"}`, "needs the name", tools.CodeInvalidArguments},
		{"alice", `{"action":"get","name":"jo"}`, `no such job; there are ["job"]`, tools.CodeNotFound},
		{"bob", `{"action":"get","name":"job"}`, "no such job; there are none", tools.CodeNotFound},
		{"bob", `{"action":"update","name":"job","tool":"evil"}`, "no such job", tools.CodeNotFound},
		{"alice", `{"action":"add","name":"job","every":"1h","tool":"y"}`, "a job with this name exists", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a b","every":"1h","tool":"x"}`, "the name", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","tool":"x"}`, "exactly one of at, every and cron", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","every":"1h","cron":"* * * * *","tool":"x"}`, "exactly one of at, every and cron", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","every":"often","tool":"x"}`, "want a duration", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","at":"2020-01-01T00:00:00Z","tool":"x"}`, "has passed", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","at":"-5m","tool":"x"}`, "has passed", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","at":"tomorrow","tool":"x"}`, "want a time such as", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","at":"2099-01-01 09:00","time_zone":"Mars/Olympus","tool":"x"}`, `time zone "Mars/Olympus"`, tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","cron":"0 0 L * *","tool":"x"}`, "not L, W or #", tools.CodeInvalidArguments},
		{"alice", `{"action":"add","name":"a","every":"1h","time_zone":"Europe/Berlin","tool":"x"}`, "goes with a cron expression", tools.CodeInvalidArguments},
	} {
		_, err := do(t, jobs, cron.Caller{Session: test.session}, "", test.request)
		if err == nil || !strings.Contains(err.Error(), test.want) || tools.CodeOf(err) != test.code {
			t.Errorf("%s: %v, code %q, want %q", test.request, err, tools.CodeOf(err), test.want)
		}
	}
}

// A retry of an add after a crash finds its own job, even if the job has ended.
// Another key gets ErrExists.
func TestAddedWithTheSameKey(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		jobs, alice := cron.New(b), cron.Caller{Session: "alice"}
		const request = `{"action":"add","name":"tea","at":"30s","tool":"say","args":{"text":"tea"}}`
		if _, err := do(t, jobs, alice, "k", request); err != nil {
			t.Fatal(err)
		}
		if _, err := do(t, jobs, alice, "other", request); !errors.Is(err, cron.ErrExists) {
			t.Errorf("another key: %v", err)
		}
		calls := runSay(t, b)
		nextCall(t, calls)
		again, err := do(t, jobs, alice, "k", request)
		if err != nil || !again.Job.Ended {
			t.Errorf("again: %+v, %v", again.Job, err)
		}
	})
}

// A redelivered call of the tool adds no second job.
func TestToolCallIsRedelivered(t *testing.T) {
	b := bustest.New(t)
	jobs := cron.New(b)
	tool := jobs.Tool(cron.ToolConfig{})
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(tool); err != nil {
		t.Fatal(err)
	}
	run := func(id string) *tools.Result {
		return registry.Run(t.Context(), tools.Call{ID: id, Session: "alice", Tool: "cron", Args: json.RawMessage(`{"action":"add","name":"tea","in_seconds":1000,"message":"tea"}`)}, nil)
	}
	first := run("c1")
	if again := run("c1"); first.IsError || again.ForLLM != first.ForLLM {
		t.Errorf("first %q, again %q", first.ForLLM, again.ForLLM)
	}
	if other := run("c2"); !other.IsError {
		t.Errorf("another call: %q", other.ForLLM)
	}
}

// A session can add at most MaxJobs jobs.
func TestTooManyJobs(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	b := bustest.New(t)
	jobs, other := cron.New(b), cron.New(b)
	for i := range 2 {
		if _, err := jobs.Add(t.Context(), cron.Caller{Operator: true}, cron.Job{Name: fmt.Sprint("job", i), Session: "alice", Every: time.Hour, Tool: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	storeNames(t, b, "alice", cron.MaxJobs-2)
	job := cron.Job{Name: "more", Every: time.Hour, Tool: "x"}
	if _, err := jobs.Add(t.Context(), cron.Caller{Session: "alice"}, job); !errors.Is(err, cron.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if _, err := jobs.Add(t.Context(), cron.Caller{Session: "bob"}, job); err != nil {
		t.Errorf("another session: %v", err)
	}
	// Jobs that other processes remove and add count.
	for _, name := range []string{"job0", "job1"} {
		if err := other.Remove(t.Context(), cron.Caller{Operator: true}, name); err != nil {
			t.Fatal(err)
		}
	}
	alice := cron.Caller{Session: "alice"}
	for i, add := range []*cron.Jobs{jobs, other} {
		job.Name = fmt.Sprint("again", i)
		if _, err := add.Add(t.Context(), alice, job); err != nil {
			t.Errorf("after two were removed: %v", err)
		}
	}
	for _, add := range []*cron.Jobs{jobs, other} {
		job.Name = "too-many"
		if _, err := add.Add(t.Context(), alice, job); !errors.Is(err, cron.ErrTooMany) {
			t.Errorf("too many again: %v", err)
		}
	}
}

// storeNames stores as many schedules for a session, without times, which is fast.
func storeNames(t *testing.T, b *bus.Bus, session string, count int) {
	t.Helper()
	for i := range count {
		if _, err := b.JetStream().PublishAsync(b.Schedule(bus.Cron, fmt.Sprintf("%s--stored%d", session, i)), []byte("{}"), jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	<-b.JetStream().PublishAsyncComplete()
	if got := bustest.Messages(t, b, bus.Ticks); got < count {
		t.Fatalf("%d of %d schedules are stored", got, count)
	}
}

// An update that changes nothing says so, and get shows the whole message.
func TestUnchangedAndWholeMessage(t *testing.T) {
	jobs, alice := cron.New(bustest.New(t)), cron.Caller{Session: "alice"}
	message := strings.Repeat("a long message ", 300) + "with an end"
	args := map[string]json.RawMessage{"content": json.RawMessage(`"` + message + `"`)}
	do := func(r cron.Request) string {
		t.Helper()
		r.Name = "tea"
		a, err := jobs.Do(t.Context(), alice, "", r)
		if err != nil {
			t.Fatal(err)
		}
		return a.Text()
	}
	do(cron.Request{Action: cron.ActionAdd, Every: "1h", Tool: "message", Args: args})
	if got := do(cron.Request{Action: cron.ActionGet}); !strings.Contains(got, message) {
		t.Errorf("get shows %d bytes: %.200q", len(got), got)
	}
	for _, r := range []cron.Request{{Action: cron.ActionUpdate}, {Action: cron.ActionUpdate, Every: "60m", Args: args}, {Action: cron.ActionEnable}} {
		if got := do(r); !strings.HasPrefix(got, "Cron job unchanged: tea") {
			t.Errorf("%+v: %.100q", r.Action, got)
		}
	}
	if got := do(cron.Request{Action: cron.ActionUpdate, Every: "2h"}); !strings.HasPrefix(got, "Cron job updated: tea") {
		t.Errorf("a change: %.100q", got)
	}
}

// A call of the tool that is delivered again after the job has run does not let it run once more.
func TestUpdateIsRedelivered(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		jobs := cron.New(b)
		registry := tools.NewRegistry(zerolog.Nop())
		if err := registry.Register(jobs.Tool(cron.ToolConfig{})); err != nil {
			t.Fatal(err)
		}
		run := func(id, args string) string {
			t.Helper()
			result := registry.Run(t.Context(), tools.Call{ID: id, Session: "alice", Tool: "cron", Args: json.RawMessage(args)}, nil)
			if result.IsError {
				t.Errorf("%s: %s", args, result.ForLLM)
			}
			return result.ForLLM
		}
		run("c1", `{"action":"add","name":"tea","in_seconds":1000,"message":"tea"}`)
		const update = `{"action":"update","name":"tea","in_seconds":20}`
		at, first := time.Now().Add(20*time.Second), run("c2", update)
		time.Sleep(time.Second)
		if text := run("c2", update); text != first {
			t.Errorf("first %q, again %q", first, text)
		}
		time.Sleep(30 * time.Second)
		if text := run("c2", update); strings.Contains(text, "next") {
			t.Errorf("again: %q", text)
		}
		if e, err := jobs.Get(t.Context(), operator, "tea"); err != nil || !e.Ended || e.At.After(at) {
			t.Errorf("the job is at %s, ended %t, %v", e.At, e.Ended, err)
		}
		if text := run("c3", update); !strings.Contains(text, "next") {
			t.Errorf("another call: %q", text)
		}
	})
}

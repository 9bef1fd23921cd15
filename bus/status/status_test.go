package status_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

func problem(s status.Status, text string) bool {
	return strings.Contains(fmt.Sprint(s.Problems), text)
}

// The status names a stream that is nearly full, calls without a worker, notifications
// without a notifier, and dead letters; when they are gone, it names no problem.
func TestProblems(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t), MaxBytes: 1 << 20})
	publish := func(subject, body string) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() status.Status {
		t.Helper()
		s := status.Read(t.Context(), b)
		if len(s.Errors) > 0 {
			t.Fatal(s.Errors)
		}
		return s
	}
	if s := read(); len(s.Problems) != 1 || !problem(s, "No worker answers") || len(s.Streams) < 6 || s.Server.Version == "" {
		t.Errorf("at the start: %+v", s)
	}
	bustest.Consumers(t, b, b.WorkerConsumer("gpu"), b.ChannelConsumer("chat"))
	for _, paused := range []bool{true, false} {
		until := time.Now()
		if paused {
			until = until.Add(time.Hour)
		}
		if _, err := b.JetStream().PauseConsumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer("gpu").Name, until); err != nil {
			t.Fatal(err)
		}
		if s := read(); problem(s, "worker-gpu is paused") != paused {
			t.Errorf("paused is %v: %q", paused, s.Problems)
		}
	}
	publish(b.Call("gpu", "train", "s", "c1"), `{"id":"c1","session":"s"}`)
	publish(b.NotifyAny("chat"), `{"text":"hello"}`)
	publish(b.Dead(bus.DeadCall, "x"), `{"kind":"call","name":"x","subject":"stevedore.call.default.x","reason":"no reason"}`)
	for i := range 9 {
		publish(b.Session(fmt.Sprint("s", i)), strings.Repeat("x", 100_000))
	}
	s := read()
	for _, want := range []string{"STEVEDORE_SESSIONS is 86 % full", `queue "gpu". Calls that wait for one: 1`, `channel "chat". Notifications that wait: 1`, "Dead letters: 1"} {
		if !problem(s, want) {
			t.Errorf("no problem %q in %q", want, s.Problems)
		}
	}
	if problem(s, "No worker answers") {
		t.Errorf("the missing worker of a queue is named twice: %q", s.Problems)
	}
	tool, err := tools.NewTool("train", "For the test.", func(context.Context, tools.Call, struct{}) *tools.Result { return tools.NewToolResult("done") })
	if err != nil {
		t.Fatal(err)
	}
	workertest.Start(t, b, workertest.Plain{}, worker.Config{Queues: []string{"gpu"}}, tool)
	bustest.WaitUntil(t, "the call to end", func() bool { return !problem(read(), "gpu") })
}

// The status says that a call waits for an approval.
func TestWaitingApprovalIsNamed(t *testing.T) {
	b := bustest.New(t)
	p := task.Parked{Call: tools.Call{ID: "c", Session: "s", Tool: "shell"}, Queue: "default", State: task.InputRequired,
		Reason: "waiting for an approval", Since: time.Now(), Until: time.Now().Add(time.Minute)}
	if _, err := task.Park(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	if s := status.Read(t.Context(), b); !problem(s, "wait for an approval: 1") {
		t.Errorf("problems %q, errors %q", s.Problems, s.Errors)
	}
}

// The status names the outage of a model that runs wait for.
func TestOutageOfModel(t *testing.T) {
	b := bustest.New(t)
	for i, reason := range []string{tools.WaitingForModel, tools.WaitingForModel, "waiting for something else"} {
		p := task.Parked{Call: tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "agent"}, Queue: bus.AgentQueue, State: task.Waiting,
			Reason: reason, Detail: "the provider cannot be reached; check the address: connection refused", Since: time.Now(), Until: time.Now().Add(time.Minute)}
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	if s := status.Read(t.Context(), b); !problem(s, "wait for their model: 2. the provider cannot be reached") {
		t.Errorf("problems %q, errors %q", s.Problems, s.Errors)
	}
}

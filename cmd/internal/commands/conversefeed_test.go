package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// A conversation gets questions and gives answers without a worker. An answer that fails is not lost
// silently: the conversation asks again.
func TestAnswerWithoutAWorker(t *testing.T) {
	b := bustest.New(t)
	var shown bytes.Buffer
	f := &feed{bus: b, prompt: cli.NewPrompt(strings.NewReader(""), io.Discard), stderr: &shown, asked: make(chan struct{}, 1), shown: map[string]bool{}}
	f.o.Session = "s"
	call := tools.Call{ID: "c", Session: "s", Tool: "danger"}
	if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: "default", State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	f.poll(t.Context())
	if !f.isOpen() {
		t.Fatalf("no question:\n%s", shown.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if !f.answer(ended, "yes") || !strings.Contains(shown.String(), "cannot answer: ") {
		t.Fatalf("an answer that fails:\n%s", shown.String())
	}
	f.poll(t.Context())
	if !f.isOpen() || strings.Count(shown.String(), "May danger run?") != 2 {
		t.Fatalf("the question is not asked again:\n%s", shown.String())
	}
	if !f.answer(t.Context(), "yes") || !strings.Contains(shown.String(), "Approved: danger runs.") {
		t.Errorf("the second answer:\n%s", shown.String())
	}
	f.poll(t.Context())
	if f.isOpen() {
		t.Errorf("the question is open after its answer:\n%s", shown.String())
	}
}

// A conversation shows only the completion of the call whose subject it has: another body would hide the one of the call that it names.
func TestForgedCompletionIsNotShown(t *testing.T) {
	b := bustest.New(t)
	var shown lockedBuffer
	var o promptOptions
	o.call.Session = "s"
	_, stop, err := startFeed(t.Context(), o, b, nil, &shown)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, on := range []string{"other", "c"} {
		body := fmt.Sprintf(`{"id":"c","session":"s","outcome":"completed","for_llm":"on %s"}`, on)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Completion("s", on), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	bustest.WaitUntil(t, "a completion", func() bool { return strings.Contains(shown.text(), "has ended") })
	if got := shown.text(); strings.Contains(got, "on other") || !strings.Contains(got, "on c") {
		t.Errorf("shown:\n%s", got)
	}
}

// A conversation shows once what ended while its connection was lost.
func TestCompletionsOfAnOutageAreShown(t *testing.T) {
	s := bustest.Server(t)
	b, far := bustest.Connect(t, s, bus.Config{}), bustest.Connect(t, s, bus.Config{})
	var shown lockedBuffer
	var o promptOptions
	o.call.Session = "s"
	f, stop, err := startFeed(t.Context(), o, far, nil, &shown)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	publish := func(id string) {
		t.Helper()
		body := fmt.Sprintf(`{"id":%q,"session":"s","outcome":"completed","for_llm":"there it is"}`, id)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Completion("s", id), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	ignore := func(yes bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.shown["completion.lost"] = yes
	}
	if err := far.Conn().Flush(); err != nil { // the server may otherwise get what another connection publishes before the subscription
		t.Fatal(err)
	}
	ignore(true) // as if it did not arrive
	publish("lost")
	publish("heard")
	bustest.WaitUntil(t, "a completion", func() bool { return strings.Contains(shown.text(), "heard") })
	ignore(false)
	if err := far.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the completion that was lost", func() bool { return strings.Contains(shown.text(), "lost") })
	if n := strings.Count(shown.text(), "heard"); n != 1 {
		t.Errorf("shown %d times:\n%s", n, shown.text())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

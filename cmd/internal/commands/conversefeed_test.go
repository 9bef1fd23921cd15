package commands

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

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

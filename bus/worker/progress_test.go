package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// A tool that reports every word of a text causes few events. Together they contain the
// whole text in order, and they precede the result.
func TestProgressIsThrottledWithoutLoss(t *testing.T) {
	b := bustest.New(t)
	var want strings.Builder
	tool, err := tools.NewTool("talk", "reports", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
		for i := range 1000 {
			word := fmt.Sprintf("wörd%d ", i)
			tools.ReportProgress(ctx, tools.Progress{Message: "talking", Activity: []tools.Activity{
				{Type: tools.ActivityText, Turn: 1, Offset: utf8.RuneCountInString(want.String()), Text: word},
			}})
			want.WriteString(word)
		}
		tools.ReportProgress(ctx, tools.Progress{Message: "calling", Activity: []tools.Activity{{Type: tools.ActivityToolStart, Turn: 1, Call: "c", Tool: "grep"}}})
		return &tools.Result{ForLLM: "done"}
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := workertest.Start(t, b, workertest.Plain{}, worker.Config{}, tool.WithEffect(tools.Idempotent))
	events := bustest.Subscribe(t, b, b.Progress("s", "c1"))
	if _, err := rpc.Submit(t.Context(), b, "", tools.Call{ID: "c1", Session: "s", Tool: "talk"}); err != nil {
		t.Fatal(err)
	}
	var (
		got   strings.Builder
		count int
	)
	for {
		event, _ := bustest.Next[tools.ProgressEvent](t, events)
		count++
		for _, activity := range event.Activity {
			if activity.Type == tools.ActivityText && activity.Offset != utf8.RuneCountInString(got.String()) {
				t.Errorf("offset %d after %d characters", activity.Offset, utf8.RuneCountInString(got.String()))
			}
			got.WriteString(activity.Text)
		}
		if n := len(event.Activity); n > 0 && event.Activity[n-1].Type == tools.ActivityToolStart {
			break
		}
	}
	if got.String() != want.String() {
		t.Errorf("got %d bytes of text, want %d", got.Len(), want.Len())
	}
	if count > 100 {
		t.Errorf("1001 reports caused %d events", count)
	}
	stop()
	for _, msg := range bustest.Rest(t, b, events) {
		t.Errorf("an event after the result: %s", msg.Data)
	}
}

// A burst that exceeds the bounds of an event loses its rest, and the event still fits.
func TestProgressBurst(t *testing.T) {
	b := bustest.New(t)
	tool, err := tools.NewTool("burst", "reports", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
		tools.ReportProgress(ctx, tools.Progress{Message: "first"}) // the others wait for the end of the interval
		for i := range 300 {
			tools.ReportProgress(ctx, tools.Progress{Message: "burst", Activity: []tools.Activity{
				{Type: tools.ActivityText, Turn: 1, Offset: i * 16 << 10, Text: strings.Repeat("x", 16<<10)},
				{Type: tools.ActivityToolStart, Turn: 1, Tool: "grep"},
			}})
		}
		return &tools.Result{ForLLM: "done"}
	})
	if err != nil {
		t.Fatal(err)
	}
	workertest.Start(t, b, workertest.Plain{}, worker.Config{}, tool.WithEffect(tools.Idempotent))
	events := bustest.Subscribe(t, b, b.Progress("s", "c1"))
	if _, err := rpc.Submit(t.Context(), b, "", tools.Call{ID: "c1", Session: "s", Tool: "burst"}); err != nil {
		t.Fatal(err)
	}
	if first, _ := bustest.Next[tools.ProgressEvent](t, events); first.Message != "first" {
		t.Errorf("event %+v", first)
	}
	last, msg := bustest.Next[tools.ProgressEvent](t, events)
	if last.Message != "burst" || len(last.Activity) == 0 || len(msg.Data) > 128<<10 {
		t.Errorf("event %q with %d bytes and %d activities", last.Message, len(msg.Data), len(last.Activity))
	}
}

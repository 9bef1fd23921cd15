package rpc_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// flaky is a tool of each kind, which answers when it is run at all.
type flaky struct {
	name   string
	effect tools.Effect
}

func (f flaky) Definition() tools.Definition {
	return tools.Definition{Name: f.name, Description: "answers", Effect: f.effect}
}
func (flaky) Execute(context.Context, tools.Call) *tools.Result { return tools.NewToolResult("it ran") }

// flakyAsync goes on in the background.
type flakyAsync struct{ flaky }

func (flakyAsync) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go callback(ctx, tools.NewToolResult("it ran"))
	return tools.AsyncResult("started")
}

// A call that no worker survives ends in a result that says so, and where its
// message is; who waits for it gets that. An operator's retry takes the answer
// back and runs the call, but not one that may have run and must not run twice.
func TestGivenUpCallIsAnsweredAndCanBeRetried(t *testing.T) {
	b := bustest.New(t)
	registry := tools.NewRegistry(bustest.Log(t))
	toolset := []tools.Tool{flaky{"plain", tools.Keyed}, flaky{"fresh", tools.Once}, flaky{"begun", tools.Once}, flakyAsync{flaky{"async", tools.Keyed}}, flakyAsync{flaky{"async_begun", tools.Once}}}
	if err := registry.Register(toolset...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.New(b, registry, offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{}),
			worker.Config{MaxAttempts: 3, ClaimTimeout: time.Millisecond, AskTimeout: 50 * time.Millisecond, Log: bustest.Log(t)}).Run(ctx)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	for tool, want := range map[string]struct {
		async     bool
		first     tools.Outcome // of the last answer
		retriable bool
	}{
		"plain":       {false, tools.Failed, true},
		"fresh":       {false, tools.Failed, true}, // nobody started it
		"begun":       {false, tools.Unknown, false},
		"async":       {true, tools.Failed, true},
		"async_begun": {true, tools.Unknown, false},
	} {
		t.Run(tool, func(t *testing.T) {
			call := tools.Call{ID: tool, Session: "s", Tool: tool}
			if strings.HasSuffix(tool, "begun") {
				publish(t, b, bus.Message{Subject: b.Claim("s", tool), Body: []byte(`{"worker":"dead"}`)})
			}
			// Three workers died of it.
			publish(t, b, bus.Message{Subject: b.Call("default", tool), Body: []byte(`{"id":"` + tool + `","session":"s"}`),
				Key: "s." + tool + "." + call.Digest(), Header: map[string][]string{"Stevedore-Attempt": {"3"}}})
			got := ends(t, b, call, want.async)
			letter := letterOf(t, b, tool)
			if got.Outcome != want.first || !got.IsError || !strings.Contains(got.ForLLM, "worker dead show "+letter) {
				t.Errorf("the answer to a call that was given up on: %+v; want %s, and the letter %s", got, want.first, letter)
			}
			if want.first == tools.Failed && !strings.Contains(got.ForLLM, "delivered 3 times") {
				t.Errorf("it does not say how often it was tried: %s", got.ForLLM)
			}

			err := retry(t, b, tool)
			if !want.retriable {
				if err == nil || !strings.Contains(err.Error(), "must not run twice") || letterOf(t, b, tool) == "" {
					t.Errorf("retried: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got = ends(t, b, call, want.async) // the old answer is gone, so it is waited for
			if got.ForLLM != "it ran" || letterOf(t, b, tool) != "" {
				t.Errorf("after the retry: %+v, letter %q", got, letterOf(t, b, tool))
			}
		})
	}
}

func publish(t *testing.T, b *bus.Bus, m bus.Message) {
	t.Helper()
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the last answer to a call as a client does that submits it.
func ends(t *testing.T, b *bus.Bus, call tools.Call, async bool) tools.ResultEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	event, err := rpc.Submit(ctx, b, "default", call)
	if err == nil && (event.Outcome == tools.Async) != async {
		t.Fatalf("result %+v", event)
	}
	if err == nil && async {
		event, err = rpc.AwaitCompletion(ctx, b, call)
	}
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func letters(t *testing.T, b *bus.Bus, tool string) (found []bus.StoredDeadLetter) {
	t.Helper()
	for letter, err := range b.DeadLetters(t.Context(), bus.DeadCall) {
		if err != nil {
			t.Fatal(err)
		}
		if letter.Name == tool {
			found = append(found, letter)
		}
	}
	return found
}

// letterOf returns the number of a tool's dead letter, or "".
func letterOf(t *testing.T, b *bus.Bus, tool string) string {
	t.Helper()
	for _, letter := range letters(t, b, tool) {
		return strconv.FormatUint(letter.Number, 10)
	}
	return ""
}

func retry(t *testing.T, b *bus.Bus, tool string) error {
	t.Helper()
	found := letters(t, b, tool)
	if len(found) != 1 {
		t.Fatalf("dead letters %+v", found)
	}
	return rpc.RetryCall(t.Context(), b, found[0])
}

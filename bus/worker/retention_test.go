package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// The results stream dropped the claim of a once-only call earlier than after its
// default of 7 days. The call does not run again. A call that is younger than what the
// stream dropped runs.
func TestDroppedClaim(t *testing.T) {
	for name, drop := range map[string]func(*testing.T, jetstream.JetStream, jetstream.Stream) error{
		"short retention": func(t *testing.T, js jetstream.JetStream, s jetstream.Stream) error {
			config := s.CachedInfo().Config
			config.MaxAge, config.Duplicates = 2*time.Second, time.Second
			_, err := js.UpdateStream(t.Context(), config)
			return err
		},
		"purge": func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) error { return s.Purge(t.Context()) },
		"trim": func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) error {
			return s.Purge(t.Context(), jetstream.WithPurgeKeep(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				submit(t, b, short("default", "once"), `{"id":"old","args":{"text":"x"}}`)
				time.Sleep(time.Second)
				submit(t, b, b.Claim("default", "old"), `{"worker":"dead","nonce":"n"}`)
				submit(t, b, b.Result("default", "newer"), `{}`)
				s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
				if err != nil {
					t.Fatal(err)
				}
				if err := drop(t, b.JetStream(), s); err != nil {
					t.Fatal(err)
				}
				bustest.WaitUntil(t, "the stream to drop the claim", func() bool {
					_, sequence, err := task.ReadClaim(t.Context(), b, "default", "old")
					return sequence == 0 && err == nil
				})
				time.Sleep(time.Second)
				submit(t, b, short("default", "once"), `{"id":"young","args":{"text":"x"}}`)
				bustest.Fail(t, b, "default", 1)
				results := bustest.Subscribe(t, b, b.Result("default", "*"))
				var runs atomic.Int64
				start(t, b, worker.Config{AskTimeout: 50 * time.Millisecond}, echo(t, "once", tools.Once, &runs, nil))
				want := map[string]tools.Outcome{"old": tools.Unknown, "young": tools.Completed}
				for range want {
					if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != want[got.ID] {
						t.Errorf("result %+v", got)
					}
				}
				if n := runs.Load(); n != 1 {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}

// The stream drops the claim of a running once-only call, and then a stop requeues the
// call. The requeued message is younger than the claim, but the call does not run again.
func TestDroppedClaimOfRequeuedCall(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	started := make(chan struct{})
	tool, err := tools.NewTool("once", "waits for the end", func(ctx context.Context, _ tools.Call, _ echoArgs) *tools.Result {
		runs.Add(1)
		close(started)
		<-ctx.Done()
		return tools.ErrorResult("interrupted")
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, b, worker.Config{Grace: time.Millisecond}, tool.WithEffect(tools.Once))
	results := bustest.Subscribe(t, b, b.Result("default", "*"))
	submit(t, b, short("default", "once"), `{"id":"a","args":{"text":"x"}}`)
	<-started
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	start(t, b, worker.Config{AskTimeout: 50 * time.Millisecond}, echo(t, "once", tools.Once, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Unknown || runs.Load() != 1 {
		t.Errorf("result %+v after %d runs", got, runs.Load())
	}
}

// recordStart records a start of a call of the default session.
func recordStart(t *testing.T, b *bus.Bus, call string) {
	t.Helper()
	if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "default", ID: call}, 1); err != nil {
		t.Fatal(err)
	}
}

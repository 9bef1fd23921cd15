package worker_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// Many more calls than the streams hold go through rpc.submit and rpc.call. While waiting
// calls fill the stream, submitters get an error that says so, and the keeper is not ready;
// they submit again. Each call gets its one result, although the results stream holds far
// less than those of the minimum age.
// STEVEDORE_SMALL_STREAMS=100000 submits so many calls, with streams of 16 MiB.
func TestSmallStreams(t *testing.T) {
	slow.Test(t)
	bustest.Bubble(t, func(t *testing.T) {
		if testing.Short() {
			t.Skip("thousands of calls take long under the race detector")
		}
		count, size, lease := 1200, int64(128<<10), 500*time.Millisecond
		if text := os.Getenv("STEVEDORE_SMALL_STREAMS"); text != "" {
			var err error
			if count, err = strconv.Atoi(text); err != nil {
				t.Fatalf("STEVEDORE_SMALL_STREAMS: %v", err)
			}
			size, lease = 16<<20, 0
		}
		b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: size, StreamBytes: map[string]int64{"results": size}, Lease: lease})
		bustest.Run(t, rpc.NewService(b, nil, rpc.ServiceConfig{Log: bustest.Log(t)}).Run)

		// Each stored result is repeated once; the stream does not keep all of them.
		stored := make([]atomic.Int64, count)
		var results atomic.Int64
		sub, err := b.Conn().Subscribe(b.Stored(b.Result("small", "*")), func(m *nats.Msg) {
			n, err := strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+2:])
			if err != nil || n >= count {
				t.Errorf("a result on %s", m.Subject)
				return
			}
			stored[n].Add(1)
			results.Add(1)
		})
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err != nil {
			t.Fatal(err)
		}

		// submit returns the error code of the rejection, or "".
		submit := func(function string, n int) (code, text string) {
			subject := b.RPC(function, "default", "echo", "small", fmt.Sprint("c", n))
			for {
				reply, err := b.Conn().Request(subject, []byte(`{"args":{"text":"x"}}`), 30*time.Second)
				if err == nil {
					return reply.Header.Get("Nats-Service-Error-Code"), reply.Header.Get("Nats-Service-Error")
				}
				if t.Context().Err() != nil || t.Failed() || !strings.Contains(err.Error(), "no responders") {
					return "request", err.Error()
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		next := 0
		for ; next < count; next++ { // without a worker
			if code, text := submit("submit", next); code != "" {
				if code != rpc.CodeFull || !strings.Contains(text, "calls wait for workers") {
					t.Fatalf("call %d: %s: %s", next, code, text)
				}
				break
			}
		}
		if size < 1<<20 && next == count {
			t.Fatal("no call was rejected")
		}

		var log bytes.Buffer
		k := retention.New(b, retention.Config{Log: zerolog.New(&log)})
		if err := k.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next < count {
			for what, text := range map[string]string{"readiness": fmt.Sprint(k.Ready()), "log": log.String()} {
				if !strings.Contains(text, "STEVEDORE_CALLS") || !strings.Contains(text, "calls wait for workers") {
					t.Errorf("%s: %s", what, text)
				}
			}
		}
		k = retention.New(b, retention.Config{Log: bustest.Log(t)})

		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil))
		bustest.Run(t, k.Run)
		numbers := make(chan int)
		var clients sync.WaitGroup
		for range 64 {
			clients.Go(func() {
				for n := range numbers {
					function := "submit"
					if n%2 == 0 {
						function = "call"
					}
					for {
						code, text := submit(function, n)
						if code == "" {
							break
						}
						if code != rpc.CodeFull && code != rpc.CodeBusy && code != "request" {
							t.Errorf("call %d: %s: %s", n, code, text)
							break
						}
						time.Sleep(50 * time.Millisecond)
					}
				}
			})
		}
		for ; next < count; next++ {
			numbers <- next
		}
		close(numbers)
		clients.Wait()
		for last, still := int64(-1), 0; results.Load() < int64(count); still++ {
			if now := results.Load(); now != last {
				last, still = now, 0
			} else if still > 600 {
				t.Fatalf("%d of %d calls have a result, and nothing happens: %v", now, count, cmp.Or(k.Ready(), t.Context().Err()))
			}
			time.Sleep(100 * time.Millisecond)
		}
		for n := range stored {
			if got := stored[n].Load(); got != 1 {
				t.Errorf("call %d has %d results", n, got)
			}
		}
		if n := bustest.Messages(t, b, bus.Results); n >= count {
			t.Errorf("%d results are stored: none was removed", n)
		}
	})
}

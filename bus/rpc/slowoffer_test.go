package rpc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// On a busy machine workers may answer after a second, and far apart. They are not said to be missing.
func TestSlowWorkersAreFound(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		for name, delay := range map[string]time.Duration{"first": 1500 * time.Millisecond, "second": 2500 * time.Millisecond} {
			stop, err := task.AnswerAll(b, zerolog.Nop(), b.RPC("offer"), func(*nats.Msg) any {
				time.Sleep(delay)
				return tools.Offer{Worker: name, Queues: []string{bus.DefaultQueue}, Tools: []tools.OfferedTool{{Name: name}}}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
		}
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		defer time.Sleep(time.Minute) // the last answers end
		if list, err := rpc.ListTools(t.Context(), b, tools.OfferQuery{}); err != nil || len(list.Tools) != 2 {
			t.Errorf("the tools are %v, %v", list.Names(), err)
		}
		if ok, err := rpc.HasWorker(t.Context(), b, bus.DefaultQueue, "second"); !ok || err != nil {
			t.Errorf("a worker with the second tool: %v, %v", ok, err)
		}
		if ok, err := rpc.HasWorker(t.Context(), b, bus.DefaultQueue, "third"); ok || err != nil {
			t.Errorf("a worker with the third tool: %v, %v", ok, err)
		}
	})
}

// Nobody knows the tools of workers that do not answer.
func TestSilentWorkersHaveUnknownTools(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		if list, err := rpc.ListTools(t.Context(), b, tools.OfferQuery{}); err != nil || len(list.Tools) != 0 {
			t.Errorf("without workers: %v, %v", list.Names(), err)
		}
		stop, err := task.AnswerAll(b, zerolog.Nop(), b.RPC(">"), func(*nats.Msg) any { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for _, q := range []tools.OfferQuery{{}, {Tool: "one"}, {Queue: "q"}, {Queue: "q", Tool: "one"}} {
			if list, err := rpc.ListTools(t.Context(), b, q); !errors.Is(err, task.ErrSilent) {
				t.Errorf("%+v: %v, %v", q, list.Names(), err)
			}
			if ok, err := rpc.HasWorker(t.Context(), b, q.Queue, q.Tool); q.Queue != "" && (ok || !errors.Is(err, task.ErrSilent)) {
				t.Errorf("a worker with %+v: %v, %v", q, ok, err)
			}
		}
		if calls, err := task.AllRunning(t.Context(), b); !errors.Is(err, task.ErrSilent) {
			t.Errorf("all calls that run: %v, %v", calls, err)
		}
		// Workers of other queues answer only a request to all.
		other, err := task.AnswerAll(b, zerolog.Nop(), b.RPC("offer"), func(m *nats.Msg) any {
			if strings.Contains(string(m.Data), "queue") {
				return nil
			}
			return tools.Offer{Worker: "w", Queues: []string{"other"}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer other()
		for _, q := range []tools.OfferQuery{{Queue: "q"}, {Queue: "q", Tool: "one"}} {
			if list, err := rpc.ListTools(t.Context(), b, q); err != nil || len(list.Tools) != 0 {
				t.Errorf("%+v: %v, %v", q, list.Names(), err)
			}
			if ok, err := rpc.HasWorker(t.Context(), b, q.Queue, q.Tool); ok || err != nil {
				t.Errorf("a worker with %+v: %v, %v", q, ok, err)
			}
		}
	})
}

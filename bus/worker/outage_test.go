package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// brokenStore is an Offloader whose store fails.
type brokenStore struct {
	workertest.Plain
	attempt  func()
	fallback func()
}

func (s brokenStore) Result(context.Context, tools.Call, tools.Definition, *tools.Result) (*tools.Result, error) {
	s.attempt()
	return nil, nats.ErrNoResponders
}

func (s brokenStore) Fallback(call tools.Call, res *tools.Result, cause error) *tools.Result {
	s.fallback()
	return s.Plain.Fallback(call, res, cause)
}

// The worker gives a result up that it cannot store, but not while the bus does not answer.
func TestAnOutageOfTheBusLosesNoResult(t *testing.T) {
	for name, outage := range map[string]bool{"the bus is down": true, "the store fails": false} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				s := bustest.Server(t)
				b := bustest.Connect(t, s, bus.Config{})
				begin, gaveUp, tried := time.Time{}, make(chan time.Duration, 1), make(chan struct{}, 1000)
				store := brokenStore{
					attempt: func() {
						switch {
						case begin.IsZero():
							if begin = time.Now(); outage {
								go s.Close()
							}
						case time.Since(begin) > 15*time.Minute:
							tried <- struct{}{}
						}
					},
					fallback: func() { gaveUp <- time.Since(begin) },
				}
				tool := echo(t, "echo", tools.Once, new(atomic.Int64), nil)
				stop := workertest.Start(t, b, store, worker.Config{}, tool)
				submit(t, b, short("default", "echo"), `{"id":"a","session":"s","args":{"text":"x"}}`)
				select {
				case <-tried:
					if !outage {
						t.Error("the worker never gives up")
					}
				case after := <-gaveUp:
					if outage {
						t.Errorf("the worker gives the result up after %v", after)
					}
				}
				stop()
			})
		})
	}
}

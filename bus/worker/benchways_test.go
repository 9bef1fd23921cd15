package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// BenchmarkWays measures calls from their submission to their result on each way in, with
// 1, 64 and 500 in flight, against the same number of blocking clients of the bare pipeline,
// which publishes one by one, with the same JSON; bare-bytes decodes and encodes nothing.
// Rounds are in random order; it reports the medians. With waiting calls, 100,000 calls of
// another queue wait in the calls stream.
//
//	go test ./bus/worker -run '^$' -bench Ways -benchtime 1x
func BenchmarkWays(b *testing.B) {
	for _, sync := range []bool{true, false} {
		for _, waiting := range []int{0, 100_000} {
			for _, inFlight := range []int{1, 64, 500} {
				if waiting > 0 && inFlight != 500 {
					continue
				}
				name := fmt.Sprintf("%s/%d", map[bool]string{true: "SyncAlways", false: "NoSync"}[sync], inFlight)
				if waiting > 0 {
					name += fmt.Sprint("/waiting", waiting)
				}
				b.Run(name, func(b *testing.B) { benchWays(b, sync, waiting, inFlight) })
			}
		}
	}
}

func benchWays(b *testing.B, sync bool, waiting, inFlight int) {
	product, bare := newPipeline(b, !sync), newPipeline(b, !sync)
	product.serveProduct(b)
	bare.serveBare(b)
	bytes := newPipeline(b, !sync)
	bytes.serveBareWith(b, sameBytes)
	service := rpc.NewService(product.connect(b), nil, rpc.ServiceConfig{Log: bustest.Log(b)})
	bustest.Run(b, service.Run)
	product.enqueue(b, waiting)
	calls := max(20*inFlight, 200) // so that the start and the end of a round count little
	if !sync {
		calls *= 2
	}
	ways := product.ways(b)
	ways["bare"], ways["bare-bytes"] = bare.ways(b)["publish"], bytes.ways(b)["publish"]
	ways["stored"] = func(id string) error {
		_, err := bytes.client.JetStream().Publish(b.Context(), bytes.client.Call("unserved", "noop", "bench", id), bytes.body(id, 200))
		return err
	}
	rates := map[string][]float64{}
	for round := range 4 {
		names := []string{"bare", "bare-bytes", "stored", "publish", "short", "rpc.call", "rpc.call-id", "rpc.submit", "go"}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			rate := inParallel(b, inFlight, calls, ways[name])
			if round > 0 { // the first one warms up
				rates[name] = append(rates[name], rate)
			}
		}
	}
	for b.Loop() { // it resets the metrics
	}
	base := rates["bare"]
	b.ReportMetric(median(slices.Clone(base)), "bare-calls/s")
	for name, values := range rates {
		if name == "bare" {
			continue
		}
		ratios := make([]float64, len(values))
		for i := range values {
			ratios[i] = values[i] / base[i]
		}
		b.ReportMetric(median(ratios), name+"-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// inParallel calls do from some goroutines, and returns the calls per second.
func inParallel(b *testing.B, inFlight, calls int, do func(id string) error) float64 {
	b.Helper()
	var (
		wg   sync.WaitGroup
		next atomic.Int64
	)
	begin := time.Now()
	for range inFlight {
		wg.Go(func() {
			for next.Add(1) <= int64(calls) {
				if err := do(fmt.Sprint("w", wayID.Add(1))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(calls) / time.Since(begin).Seconds()
}

var wayID atomic.Int64

// ways returns the ways in. Each submits a call and returns when its result is stored.
func (p *pipeline) ways(b *testing.B) map[string]func(id string) error {
	var waiters sync.Map
	if _, err := p.client.Conn().Subscribe("stevedore.result.bench.*", func(msg *nats.Msg) {
		if done, ok := waiters.LoadAndDelete(msg.Subject[len("stevedore.result.bench."):]); ok {
			close(done.(chan struct{}))
		}
	}); err != nil {
		b.Fatal(err)
	}
	await := func(id string, submit func() error) error {
		done := make(chan struct{})
		waiters.Store(id, done)
		if err := submit(); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-time.After(20 * time.Second):
			return errors.New("no result of " + id)
		}
	}
	publish := func(subject string, id string) error {
		_, err := p.client.JetStream().Publish(b.Context(), subject, p.body(id, 200))
		return err
	}
	request := func(body []byte, tokens ...string) error {
		ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
		defer cancel()
		msg, err := p.client.Conn().RequestWithContext(ctx, p.client.RPC(tokens...), body)
		if err == nil && msg.Header.Get("Nats-Service-Error") != "" {
			err = errors.New(msg.Header.Get("Nats-Service-Error"))
		}
		return err
	}
	remote := p.connect(b)
	return map[string]func(id string) error{
		"publish":     func(id string) error { return await(id, func() error { return publish(p.call(id), id) }) },
		"rpc.call":    func(string) error { return request(p.body("", 200), "call", "default", "noop") },
		"rpc.call-id": func(id string) error { return request(p.body(id, 200), "call", "default", "noop", "bench", id) },
		"rpc.submit": func(id string) error {
			return await(id, func() error { return request(p.body(id, 200), "submit", "default", "noop", "bench", id) })
		},
		"go": func(id string) error {
			call, err := tools.DecodeCall(p.body(id, 200))
			if err == nil {
				call.Tool = "noop"
				_, err = rpc.Submit(b.Context(), remote, bus.DefaultQueue, call)
			}
			return err
		},
	}
}

// enqueue stores calls in a queue without a worker.
func (p *pipeline) enqueue(b *testing.B, calls int) {
	for i := range calls {
		if _, err := p.client.JetStream().PublishAsync(p.client.Call("unserved", "noop", "bench", fmt.Sprint("u", i)), p.body("", 200)); err != nil {
			b.Fatal(err)
		}
		if i%4000 == 3999 {
			<-p.client.JetStream().PublishAsyncComplete()
		}
	}
	<-p.client.JetStream().PublishAsyncComplete()
}

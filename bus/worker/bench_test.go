package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// BenchmarkPipeline compares durable calls (publish the call, run a no-op, publish
// the result, acknowledge) with the same pipeline written with nats.go only: the same
// server settings, streams, consumer and JSON, but no validation, claims, digests,
// leases, headers or verdicts. Rounds of both alternate; it reports the medians.
//
//	go test ./bus/worker -run '^$' -bench Pipeline -benchtime 1x
func BenchmarkPipeline(b *testing.B) {
	for _, c := range []struct {
		name  string
		sync  bool
		calls int
		size  int // of the argument, so that a call has about 256 B or 4 KB
	}{
		{"256B", false, 20_000, 200},
		{"4KB", false, 8_000, 4000},
		{"256B-SyncAlways", true, 3_000, 200},
	} {
		b.Run(c.name, func(b *testing.B) {
			product, bare := newPipeline(b, !c.sync), newPipeline(b, !c.sync)
			product.serveProduct(b)
			bare.serveBare(b)
			product.run(b, 500, c.size) // warm up
			bare.run(b, 500, c.size)
			for b.Loop() {
				var ours, theirs, ratios []float64
				for range 5 {
					o, t := product.run(b, c.calls, c.size), bare.run(b, c.calls, c.size)
					ours, theirs, ratios = append(ours, o), append(theirs, t), append(ratios, o/t)
				}
				b.ReportMetric(median(ours), "calls/s")
				b.ReportMetric(median(theirs), "bare-calls/s")
				b.ReportMetric(median(ratios), "ratio")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLatency measures one durable call at a time, from submission to
// result, against one durable publish.
func BenchmarkLatency(b *testing.B) {
	for _, sync := range []bool{false, true} {
		b.Run(map[bool]string{false: "NoSync", true: "SyncAlways"}[sync], func(b *testing.B) {
			p := newPipeline(b, !sync)
			p.serveProduct(b)
			p.run(b, 500, 200)
			for b.Loop() {
				const n = 1000
				calls, publishes := make([]time.Duration, n), make([]time.Duration, n)
				for i := range n {
					begin := time.Now()
					p.run(b, 1, 200)
					calls[i] = time.Since(begin)
					begin = time.Now()
					if _, err := p.client.JetStream().Publish(b.Context(), p.client.Session("latency"), p.body("x", 200)); err != nil {
						b.Fatal(err)
					}
					publishes[i] = time.Since(begin)
				}
				slices.Sort(calls)
				slices.Sort(publishes)
				b.ReportMetric(calls[n/2].Seconds()*1000, "p50-ms")
				b.ReportMetric(calls[n*99/100].Seconds()*1000, "p99-ms")
				b.ReportMetric(publishes[n/2].Seconds()*1000, "publish-p50-ms")
				b.ReportMetric(publishes[n*99/100].Seconds()*1000, "publish-p99-ms")
				b.ReportMetric(float64(calls[n/2])/float64(publishes[n/2]), "p50-ratio")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// pipeline is a server on loopback TCP and a client. One of the serve methods
// starts the worker.
type pipeline struct {
	server  *embedded.Server
	client  *bus.Bus
	results atomic.Int64
	arrived chan struct{}
	sent    int
	call    func(id string) string // the subject of a call
}

// pipelineSlots is the number of calls that the bare worker runs at once.
const pipelineSlots = 512

func newPipeline(b *testing.B, noSync bool) *pipeline {
	b.Helper()
	s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", NoSync: noSync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	p := &pipeline{server: s, arrived: make(chan struct{}, 1)}
	p.client = p.connect(b)
	p.call = func(id string) string { return p.client.Call(bus.DefaultQueue, "noop", "bench", id) }
	if _, err := admin.Provision(b.Context(), p.client, admin.Nothing); err != nil {
		b.Fatal(err)
	}
	if _, err := p.client.Conn().Subscribe("stevedore.result.>", func(*nats.Msg) {
		p.results.Add(1)
		select {
		case p.arrived <- struct{}{}:
		default:
		}
	}); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *pipeline) connect(b *testing.B) *bus.Bus {
	b.Helper()
	c, err := bus.Connect(b.Context(), bus.Config{Server: p.server.URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// serveProduct runs our worker.
func (p *pipeline) serveProduct(b *testing.B) {
	registry := tools.NewRegistry(zerolog.Nop())
	noop, err := tools.NewTool("noop", "answers at once", func(_ context.Context, _ tools.Call, in echoArgs) *tools.Result {
		return tools.NewToolResult(in.Text)
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := registry.Register(noop.WithEffect(tools.Idempotent)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w := worker.New(p.connect(b), registry, workertest.Plain{}, worker.Config{Name: "bench", Log: bustest.Log(b)})
	go func() { done <- w.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

// bareCalls is the subject of the calls of serveBare, and the name of their stream.
const bareCalls = "bare"

// jsonResult decodes a call and encodes its result.
func jsonResult(data []byte) (id string, result []byte, err error) {
	started := time.Now().UTC()
	var call tools.Call
	var in echoArgs
	if err := json.Unmarshal(data, &call); err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(call.Args, &in); err != nil {
		return "", nil, err
	}
	event := tools.NewResultEvent(call, tools.NewToolResult(in.Text))
	event.Tool, event.Attempt, event.Worker, event.StartedAt = "noop", 1, "bench", started
	event.DurationMS = time.Since(started).Milliseconds()
	result, err = json.Marshal(event)
	return call.ID, result, err
}

// serveBare runs the same pipeline with nats.go only: its calls are in a work queue, as most
// programs on JetStream have them.
func (p *pipeline) serveBare(b *testing.B) {
	c := p.connect(b)
	js := c.JetStream()
	p.call = func(string) string { return bareCalls }
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: bareCalls, Subjects: []string{bareCalls}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}); err != nil {
		b.Fatal(err)
	}
	cons, err := js.CreateConsumer(b.Context(), bareCalls, jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 30 * time.Second, MaxDeliver: -1, MaxAckPending: -1,
	})
	if err != nil {
		b.Fatal(err)
	}
	handled := make(chan struct{})
	type pending struct {
		msg    jetstream.Msg
		future jetstream.PubAckFuture
	}
	inFlight := make(chan pending, pipelineSlots)
	go func() {
		defer close(handled)
		for p := range inFlight {
			select {
			case <-p.future.Ok():
				_ = p.msg.Ack()
			case err := <-p.future.Err():
				b.Error(err)
			}
		}
	}()
	cc, err := cons.Consume(func(msg jetstream.Msg) {
		id, body, err := jsonResult(msg.Data())
		if err != nil {
			b.Error(err)
			return
		}
		future, err := js.PublishAsync("stevedore.result.bench."+id, body)
		if err != nil {
			b.Error(err)
			return
		}
		inFlight <- pending{msg, future}
	}, jetstream.PullMaxMessages(pipelineSlots))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cc.Stop()
		<-cc.Closed()
		close(inFlight)
		<-handled
	})
}

func (p *pipeline) body(id string, size int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"session":"bench","args":{"text":"%s"}}`, id, strings.Repeat("x", size))
}

// run sends calls and returns the number of results per second.
func (p *pipeline) run(b *testing.B, calls, size int) float64 {
	b.Helper()
	js := p.client.JetStream()
	want := p.results.Load() + int64(calls)
	begin := time.Now()
	for range calls {
		p.sent++
		id := fmt.Sprint("c", p.sent)
		future, err := js.PublishAsync(p.call(id), p.body(id, size))
		if err != nil {
			b.Fatal(err)
		}
		if p.sent%1000 == 0 || calls == 1 { // bounds what is in flight
			select {
			case <-future.Ok():
			case err := <-future.Err():
				b.Fatal(err)
			}
		}
	}
	for p.results.Load() < want {
		select {
		case <-p.arrived:
		case <-time.After(20 * time.Second):
			b.Fatalf("%d results are missing", want-p.results.Load())
		}
	}
	return float64(calls) / time.Since(begin).Seconds()
}

// BenchmarkProduct runs only our worker, for profiles.
func BenchmarkProduct(b *testing.B) {
	p := newPipeline(b, true)
	p.serveProduct(b)
	p.run(b, 500, 200)
	for b.Loop() {
		b.ReportMetric(p.run(b, 20_000, 200), "calls/s")
	}
}

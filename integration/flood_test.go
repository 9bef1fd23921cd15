package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/tools"
)

// A session publishes a flood of calls of 50 ms, while 20 other sessions call every second. The
// longest wait and the 95th percentile of their calls are compared with those before and after
// the flood. STEVEDORE_FLOOD is the size of the flood; make flood has 100,000.
func TestFlood(t *testing.T) {
	flood, err := strconv.Atoi(os.Getenv("STEVEDORE_FLOOD"))
	if err != nil {
		t.Skip("make flood runs it; it measures time, so it needs a calm machine")
	}
	const sessions, idle = 20, 20 * time.Second
	serveTool := func(url string) {
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		_, err = nc.QueueSubscribe("trial.wait", "tools", func(msg *nats.Msg) {
			var call struct {
				Args struct{ MS int }
			}
			_ = json.Unmarshal(msg.Data, &call) // we made it
			time.AfterFunc(time.Duration(call.Args.MS)*time.Millisecond, func() { _ = msg.Respond([]byte("done")) })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	u := startUp(t, "--remote-tool", "wait=trial.wait", "--console", "off")
	serveTool(u.url)
	nc := connect(t, u.url).nc
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(512), jetstream.WithPublishAsyncTimeout(testTimeout))
	if err != nil {
		t.Fatal(err)
	}

	var (
		mu       sync.Mutex
		sent     = map[string]time.Time{}
		waits    []time.Duration // from the publish to the stored result
		acks     []time.Duration // from the publish to its acknowledgement
		starts   []time.Duration // from the publish to the start of the tool
		floods   atomic.Int64
		inFlight atomic.Int64
	)
	subscribe := func(subject string, f nats.MsgHandler) {
		if _, err := nc.Subscribe(subject, f); err != nil {
			t.Fatal(err)
		}
	}
	subscribe("stevedore.stored.result.flood.*", func(*nats.Msg) { floods.Add(1) })
	for i := range sessions {
		subscribe(fmt.Sprintf("stevedore.stored.result.calm%d.*", i), func(msg *nats.Msg) {
			var result tools.ResultEvent
			_ = json.Unmarshal(msg.Data, &result) // it is compared with nothing
			mu.Lock()
			defer mu.Unlock()
			waits = append(waits, time.Since(sent[msg.Subject]))
			starts = append(starts, result.StartedAt.Sub(sent[msg.Subject]))
			inFlight.Add(-1)
		})
	}
	var n atomic.Int64
	callUntil := func(stop <-chan struct{}) {
		var callers sync.WaitGroup
		for i := range sessions {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / sessions)
				for tick := time.NewTicker(time.Second); ; {
					id := fmt.Sprint(n.Add(1))
					session := fmt.Sprint("calm", i)
					mu.Lock()
					sent["stevedore.stored.result."+session+"."+id] = time.Now()
					mu.Unlock()
					inFlight.Add(1)
					if _, err := js.Publish(t.Context(), "stevedore.call.default.wait."+session+"."+id, []byte(`{"args":{"ms":0}}`)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					acks = append(acks, time.Since(sent["stevedore.stored.result."+session+"."+id]))
					mu.Unlock()
					select {
					case <-stop:
						tick.Stop()
						return
					case <-tick.C:
					}
				}
			})
		}
		callers.Wait()
		for deadline := time.Now().Add(testTimeout); inFlight.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	report := func(what string) (p95, longest time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		for name, of := range map[string]*[]time.Duration{"acknowledged": &acks, "started": &starts, "ended": &waits} {
			all := *of
			slices.Sort(all)
			t.Logf("%s: %d calls %s: p50 %s, p95 %s, p99 %s, longest %s", what, len(all), name, all[len(all)/2], all[len(all)*95/100], all[len(all)*99/100], all[len(all)-1])
		}
		p95, longest = waits[len(waits)*95/100], waits[len(waits)-1]
		waits, acks, starts = nil, nil, nil
		return p95, longest
	}
	after := func(d time.Duration) <-chan struct{} {
		stop := make(chan struct{})
		time.AfterFunc(d, func() { close(stop) })
		return stop
	}
	callUntil(after(3 * time.Second)) // warms up
	report("first calls")
	callUntil(after(idle))
	before, _ := report("idle before")

	stop, begin := make(chan struct{}), time.Now()
	go func() {
		defer close(stop)
		for i := range flood {
			if _, err := js.PublishAsync(fmt.Sprintf("stevedore.call.default.wait.flood.%d", i), []byte(`{"args":{"ms":50}}`), jetstream.WithStallWait(testTimeout)); err != nil {
				t.Error(err)
				return
			}
		}
		<-js.PublishAsyncComplete()
		t.Logf("the flood was stored after %s", time.Since(begin))
		report("while the flood is stored")
		for floods.Load() < int64(flood) {
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("the flood had ended after %s", time.Since(begin))
	}()
	callUntil(stop)
	p95, longest := report("beside the flood")
	callUntil(after(idle))
	afterwards, _ := report("idle after")
	// 50 ms are not felt, also if the machine is faster when idle.
	if limit := max(3*max(before, afterwards), 50*time.Millisecond); longest > time.Second || p95 > limit {
		t.Errorf("p95 %s and longest %s; want at most %s and 1s", p95, longest, limit)
	}
}

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// Clients that know only docs/protocol.md and a NATS library lose no call that was accepted,
// although the leader of the stream is cut off until another one is elected. To a call that
// the old leader got before, it answers "maximum messages per subject", and never stores it.
func TestStockClientsOnACluster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := startCluster(t, 3)
	if o := worker(t, "provision", "--server", c.url(), "--replicas", "3"); o.code != 0 {
		t.Fatalf("provision: %s%s", o.stdout, o.stderr)
	}
	c.awaitReady()
	start(t, "serve", "--server", c.url(), "--workspace", t.TempDir())

	var (
		clients   sync.WaitGroup
		mu        sync.Mutex
		calls     []string // that were accepted
		ctx, stop = context.WithCancel(t.Context())
	)
	defer stop()
	for i := range 6 {
		nc, err := soakClient{name: fmt.Sprint("client ", i), url: c.url(i % 3)}.connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				call := fmt.Sprintf("s%d.c%d", i, n)
				if !submitAsDocumented(ctx, nc, "default.list_dir."+call) {
					return
				}
				mu.Lock()
				calls = append(calls, call)
				mu.Unlock()
				time.Sleep(250 * time.Millisecond) // the replicas keep up
			}
		})
	}
	for range 3 {
		old := c.leaderOf("STEVEDORE_CALLS", -1)
		c.isolate(old)
		c.leaderOf("STEVEDORE_CALLS", old)
		t.Logf("%s is no longer the leader", c.nodes[old].Name)
		c.links.heal()
		c.awaitReady()
	}
	stop()
	clients.Wait()
	p, lost := reconnecting(t, c.url()), 0
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(100 * time.Millisecond) {
		lost = 0
		for _, call := range calls {
			if m, err := p.nc.Request("$JS.API.DIRECT.GET.STEVEDORE_RESULTS.stevedore.result."+call, nil, testTimeout); err != nil {
				t.Fatal(err)
			} else if m.Header.Get("Status") != "" {
				lost++
			}
		}
		if lost == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(calls) == 0 || lost > 0 {
		t.Errorf("%d of %d accepted calls have no result", lost, len(calls))
	}
	t.Logf("%d calls were accepted", len(calls))
}

// leaderOf waits until a server other than cut leads a stream, and returns its number.
func (c *natsCluster) leaderOf(stream string, cut int) int {
	c.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		nc, err := nats.Connect(c.url((cut + 1) % len(c.nodes)))
		if err != nil {
			continue
		}
		if js, err := nc.JetStream(nats.MaxWait(time.Second)); err == nil {
			if info, err := js.StreamInfo(stream); err == nil && info.Cluster != nil {
				if leader := strings.Index("n0n1n2", info.Cluster.Leader) / 2; info.Cluster.Leader != "" && leader != cut {
					nc.Close()
					return leader
				}
			}
		}
		nc.Close()
	}
	c.Fatalf("no server leads %s", stream)
	return 0
}

// submitAsDocumented publishes a call as docs/protocol.md says. It returns false if ctx ended
// before the call was accepted.
func submitAsDocumented(ctx context.Context, nc *nats.Conn, call string) (accepted bool) {
	subject := "stevedore.call." + call
	for {
		answer, err := nc.Request(subject, []byte(`{"args":{"path":"."}}`), time.Second)
		var ack struct {
			Seq uint64 // of a stream
			ID  string // of rpc.submit
		}
		switch {
		case err == nil && json.Unmarshal(answer.Data, &ack) == nil && (ack.Seq > 0 || ack.ID != ""):
			return true
		case err == nil || errors.Is(err, nats.ErrNoResponders):
			subject = "stevedore.rpc.submit." + call
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

//go:build unix

package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// A worker is killed when the server has stored a batch of its results: before it reads the
// acknowledgement of the batch, or before it acknowledges the calls, or before it removes
// them. Each call keeps its one result, and no once-only call runs twice.
func TestKillBetweenBatchAndAcknowledgement(t *testing.T) {
	t.Parallel()
	skipKills(t)
	s := bustest.Start(t, embedded.Config{Listen: "127.0.0.1:0"}) // it syncs, so results leave in batches
	b := bustest.Connect(t, s, bus.Config{Lease: killLease, Log: bustest.Log(t)})
	log := &runLog{dir: t.TempDir()}
	stored := bustest.Subscribe(t, b, "stevedore.stored.result.>")
	seen := map[string]int{}
	const calls = 64
	points := []int{21} // the kill meets the batches after so many results
	if os.Getenv("STEVEDORE_KILLS") != "" {
		points = []int{1, 21, 41}
	}
	for round, results := range points {
		for i := range calls {
			effect := effects[i%len(effects)]
			id := fmt.Sprintf("%s-%d-%d", effect, round, i)
			submit(t, b, b.Call("default", string(effect), "default", id), "{}")
		}
		victim := startChild(t, s.URL(), log.dir, "default", "", slotsEnv+"=64")
		for range results {
			if msg, err := stored.NextMsg(bustest.Timeout); err == nil {
				seen[msg.Subject]++
			} else {
				t.Fatal(err)
			}
		}
		victim.kill()
		startChild(t, s.URL(), log.dir, "default", "").awaitEmptyAndKill(t, b)
		for len(seen) < (round+1)*calls {
			msg, err := stored.NextMsg(bustest.Timeout)
			if err != nil {
				t.Fatalf("%d of %d calls have results: %v", len(seen), (round+1)*calls, err)
			}
			seen[msg.Subject]++
		}
	}
	for _, msg := range bustest.Rest(t, b, stored) { // perhaps more than one of a call
		seen[msg.Subject]++
	}
	runs, unknown := log.count(t), 0
	for round := range points {
		for i := range calls {
			effect := effects[i%len(effects)]
			id := fmt.Sprintf("%s-%d-%d", effect, round, i)
			result, ok := event(t, b, b.Result("default", id))
			once := effect == tools.Once
			switch n := runs["run "+id]; {
			case !ok, once && n > 1, result.Outcome == tools.Completed && n == 0, result.Outcome != tools.Completed && !(once && result.Outcome == tools.Unknown):
				t.Errorf("%s ran %d times: %+v", id, n, result)
			case result.Outcome == tools.Unknown:
				unknown++
			}
			if n := seen["stevedore.stored.result.default."+id]; n != 1 {
				t.Errorf("%d results of %s were stored", n, id)
			}
		}
	}
	noDeadLetters(t, b)
	t.Logf("%d of %d calls are unknown", unknown, len(points)*calls)
}

// awaitEmptyAndKill waits until a worker process has settled and removed all calls.
func (c *child) awaitEmptyAndKill(t *testing.T, b *bus.Bus) {
	t.Helper()
	waitEmpty(t, b)
	c.kill()
}

// A worker is killed after it acknowledged its calls and before it removed them. Another one
// removes them, and does not run them again.
func TestKillBetweenAcknowledgementAndPurge(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	const calls = 60
	left := 0 // of all rounds
	for round := range 5 {
		for i := range calls {
			effect := effects[i%len(effects)]
			submit(t, b, b.Call("default", string(effect), "default", fmt.Sprintf("%s-%d-%d", effect, round, i)), "{}")
		}
		victim := startChild(t, url, log.dir, "default", "")
		bustest.WaitUntil(t, "all calls to be acknowledged", func() bool {
			info, ok, err := b.ConsumerInfo(t.Context(), b.WorkerConsumer("default"))
			return ok && err == nil && info.NumPending == 0 && info.NumAckPending == 0
		})
		victim.kill()
		left += bustest.Messages(t, b, bus.Calls)
	}
	if left == 0 {
		t.Fatal("no worker was killed before it removed its calls")
	}
	stop := start(t, b, worker.Config{AskTimeout: killAskTimeout}, log.tools()...)
	waitEmpty(t, b)
	stop()
	runs := log.count(t)
	if len(runs) != 5*calls {
		t.Errorf("%d of %d calls ran", len(runs), 5*calls)
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s: %d times", id, n)
		}
	}
	noDeadLetters(t, b)
	t.Logf("%d calls were acknowledged and not removed", left)
}

// A process that retries dead letters is killed before each of its writes in turn. Each
// once-only call runs once, and a second retry completes what the first one began.
func TestKillWhileRetryingDeadLetters(t *testing.T) {
	t.Parallel()
	b, url := killBus(t)
	log := &runLog{dir: t.TempDir()}
	const writes = 40 // more than two retries need
	toolset := []string{"once", "keyed"}
	for n := range writes {
		for _, tool := range toolset {
			id := fmt.Sprint(tool, "-", n)
			subject := b.Call("default", tool, "default", id)
			recordStart(t, b, id)
			recordStart(t, b, id)
			msg := bus.Message{Subject: subject, Body: fmt.Appendf(nil, `{"id":%q}`, id)}
			if _, err := b.Publish(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	bustest.Fail(t, b, "default", 2)
	stop := start(t, b, worker.Config{AskTimeout: killAskTimeout, MaxAttempts: 2, Log: zerolog.Nop()}, log.tools()...)
	bustest.WaitUntil(t, "all calls to be dead letters", func() bool { return bustest.Messages(t, b, bus.Dead) == 2*writes })
	waitEmpty(t, b)
	stop()
	killed := 0
	for n := range writes {
		if startChild(t, url, log.dir, "default", "", fmt.Sprint(retryEnv, "=", n)).cmd.Wait() == nil {
			break
		}
		killed++
	}
	if killed < 10 || killed == writes {
		t.Fatalf("%d kills", killed)
	}
	page, err := dead.ListPage(t.Context(), b, dead.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range page.Letters {
		if err := retryLetter(t.Context(), b, letter); err != nil {
			t.Error(err)
		}
	}
	noDeadLetters(t, b)
	start(t, b, worker.Config{AskTimeout: killAskTimeout}, log.tools()...)
	waitEmpty(t, b)
	runs := log.count(t)
	for n := range writes {
		for _, tool := range toolset {
			id := fmt.Sprint(tool, "-", n)
			// A keyed call may run twice: two retries may have published it.
			n := runs["run "+id]
			if result, ok := event(t, b, b.Result("default", id)); !ok || result.Outcome != tools.Completed || n == 0 || tool == "once" && n > 1 {
				t.Errorf("%s ran %d times: %+v", id, runs["run "+id], result)
			}
		}
	}
	noDeadLetters(t, b)
	t.Logf("killed at each of %d writes", killed)
}

// retryAndDie retries the n-th letters, from 0, and kills the process before write n of that.
func retryAndDie(ctx context.Context, cfg bus.Config, n int) error {
	dialer := &dyingDialer{}
	dialer.left.Store(1 << 30)
	cfg.Dialer = dialer
	b, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	var letters []dead.Stored
	page, err := dead.ListPage(ctx, b, dead.Query{})
	if err != nil {
		return err
	}
	for _, letter := range page.Letters {
		if bytes.HasSuffix(letter.Body, fmt.Appendf(nil, `-%d"}`, n)) {
			letters = append(letters, letter)
		}
	}
	dialer.left.Store(int64(n + 1))
	for _, letter := range letters {
		if err := retryLetter(ctx, b, letter); err != nil {
			return err
		}
	}
	return nil
}

// dyingDialer makes connections that kill the process instead of a write.
type dyingDialer struct{ left atomic.Int64 }

func (d *dyingDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return dyingConn{c, d}, err
}

type dyingConn struct {
	net.Conn
	dialer *dyingDialer
}

func (c dyingConn) Write(p []byte) (int, error) {
	if c.dialer.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return c.Conn.Write(p)
}

// retryLetter retries one dead letter.
func retryLetter(ctx context.Context, b *bus.Bus, letter dead.Stored) (err error) {
	rpc.ChangeLetters(ctx, b, []dead.Stored{letter}, true, func(_ dead.Stored, failed error) { err = failed })
	return err
}

package retention_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/retention"
)

// fill publishes results of a session until the stream rejects one, and returns their number.
// Their ids begin with prefix.
func fill(t *testing.T, b *bus.Bus, session, prefix string, after func(n int)) int {
	t.Helper()
	for n := 0; ; n++ {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result(session, fmt.Sprint(prefix, n)), Body: []byte(text)}); err != nil {
			return n
		}
		if after != nil {
			after(n)
		}
	}
}

// The results of two minutes fill a stream, as if one of 48 MiB got 1,000 results per second,
// for 6 minutes, or for a week with STEVEDORE_RETENTION_WEEK=1. The keeper removes those that
// are younger than the minimum age before the stream rejects one, so no publish ever fails.
// It keeps those of the last lease, and it warns.
func TestSmallStreamTakesResultsForLong(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		log := &bytes.Buffer{}
		logger := zerolog.New(zerolog.SyncWriter(log)) // of both keepers
		ctx, cancel := context.WithCancel(t.Context())
		var keepers sync.WaitGroup
		for range 2 {
			k := retention.New(b, retention.Config{Log: logger})
			keepers.Go(func() { _ = k.Run(ctx) })
		}
		put(t, b, "stevedore.call.default.slow.s0.running", "{}")
		put(t, b, b.Claim("s0", "running"), "{}")
		const perLease = 28
		minutes := 6
		if os.Getenv("STEVEDORE_RETENTION_WEEK") != "" {
			minutes = 7 * 24 * 60
		}
		for i := range int(time.Duration(minutes) * time.Minute / b.Config().Lease * perLease) {
			time.Sleep(b.Config().Lease / perLease)
			put(t, b, b.Result(fmt.Sprint("s", i%3), fmt.Sprint("c", i)), text)
			if last := i - perLease + 1; last >= 0 && !stored(t, b, bus.Results, b.Result(fmt.Sprint("s", last%3), fmt.Sprint("c", last))) {
				t.Fatalf("a result of the last lease was removed after %d", i)
			}
		}
		cancel()
		keepers.Wait()
		if !stored(t, b, bus.Results, b.Claim("s0", "running")) {
			t.Error("the claim of the running call was removed")
		}
		if _, refused := b.Space().LastRefusal(); refused {
			t.Error("the stream rejected a result")
		}
		if n := strings.Count(log.String(), "younger than the minimum age"); n == 0 || n > 2*minutes {
			t.Errorf("%d warnings in %d minutes of two workers", n, minutes)
		}
	})
}

// A publish that waits for space goes on as soon as a keeper has removed records, and not
// when its pause ends. The keeper notices the rejected publish, and not only at its next
// check.
func TestWaitingPublishIsWoken(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		fill(t, b, "s", "c", nil)
		waiting := make(chan time.Time, 1)
		publish := func(id string) {
			go func() {
				_, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", id), Body: []byte(text), Timeout: bus.NoTimeout, WaitIfFull: true})
				if err != nil {
					t.Error(err)
				}
				waiting <- time.Now()
			}()
		}
		publish("first")
		time.Sleep(2 * time.Minute) // no keeper runs, and the pauses of the publish are long
		check(t, retention.New(b, retention.Config{}))
		removed := time.Now()
		if waited := (<-waiting).Sub(removed); waited > 200*time.Millisecond {
			t.Errorf("the publish waited for %s after the records were removed", waited)
		}

		k := retention.New(b, retention.Config{})
		check(t, k)
		fill(t, b, "t", "c", nil)
		time.Sleep(2 * time.Minute)
		for len(b.Space().Refused()) > 0 {
			<-b.Space().Refused()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		other := retention.New(b, retention.Config{MinAge: 1000 * time.Hour, Interval: time.Hour}) // its first check is before the publish
		var running sync.WaitGroup
		running.Go(func() { _ = other.Run(ctx) })
		time.Sleep(100 * time.Millisecond)
		fill(t, b, "u", "c", nil)
		time.Sleep(b.Config().Lease + 10*time.Second)
		fill(t, b, "v", "c", nil)
		began := time.Now()
		publish("second")
		if waited := (<-waiting).Sub(began); waited > 2*time.Second {
			t.Errorf("the publish waited for %s", waited)
		}
		cancel()
		running.Wait()
	})
}

// While waiting calls fill their stream, a keeper can free nothing. It checks the streams
// about once a second, however many publishes are refused.
func TestRefusedCallsCauseFewChecks(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"calls": tiny})
		checks, err := b.Conn().SubscribeSync("$JS.API.STREAM.INFO." + b.StreamName(bus.Dead))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = retention.New(b, retention.Config{}).Run(ctx) })
		refused := 0
		for i := range 2000 { // 20 seconds
			_, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "echo", "s", fmt.Sprint("c", i)), Body: []byte(text)})
			if errors.Is(err, bus.ErrFull) {
				refused++
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		running.Wait()
		n, _, err := checks.Pending()
		if err != nil || n < 5 || n > 30 || refused < 1000 {
			t.Errorf("%d checks during %d refused publishes, %v", n, refused, err)
		}
	})
}

// In a session with calls in progress, their records stay, wherever they are among those of
// the calls that ended. All others go, also what a client stored on a subject with a wildcard.
func TestRecordsOfCallsInProgressStay(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		var running []string
		put(t, b, b.Result("s", "background"), `{"id":"background","session":"s","outcome":"async"}`)
		put(t, b, b.Completion("s", "background"), "{}") // forged
		n := fill(t, b, "s", "c", func(n int) {
			if n == 20 { // a client lets the server store its acknowledgement there
				if err := b.Conn().PublishRequest("stevedore.call.default.slow.s.running3", "stevedore.report.*.forged", nil); err != nil {
					t.Fatal(err)
				}
			}
			if n%12 == 3 {
				id := fmt.Sprint("running", n)
				running = append(running, id)
				put(t, b, b.Claim("s", id), text) // so large that a round frees less than it reads
				put(t, b, "stevedore.call.default.slow.s."+id, "{}")
			}
		})
		k := retention.New(b, retention.Config{})
		for round := range 4 {
			time.Sleep(2 * time.Hour)
			check(t, k)
			if !stored(t, b, bus.Results, b.Result("s", "background")) {
				t.Error("the result of an async call was removed before its completion")
			}
			for _, id := range running {
				if !stored(t, b, bus.Results, b.Claim("s", id)) {
					t.Errorf("the claim of %s was removed", id)
				}
			}
			if again := fill(t, b, "s", fmt.Sprint("round", round, "-"), nil); again < n/4 {
				t.Errorf("space for %d results of %d", again, n)
			}
		}
		if stored(t, b, bus.Results, b.Result("s", "c0")) || stored(t, b, bus.Results, b.Result("s", fmt.Sprint("c", n-1))) {
			t.Error("results of calls that ended are left")
		}
		s, err := b.Stream(t.Context(), bus.Results)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("stevedore.report.*.forged"))
		if err != nil || len(info.State.Subjects) != 0 {
			t.Errorf("what no worker stored is left: %v, %v", info.State.Subjects, err)
		}
	})
}

// A refused publish counts as a refusal until the next try is stored, and not for as long as it is shown without
// another try. A result that is stored meanwhile does not end it.
func TestRefusalEndsWithTheNextWrite(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, nil)
		k := retention.New(b, retention.Config{})
		limit := func(messages int64) {
			t.Helper()
			stream, err := b.Stream(t.Context(), bus.Sessions)
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			config.MaxMsgs = messages
			if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
		put(t, b, b.Session("stored"), text)
		limit(1)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Session("refused"), Body: []byte(text)}); !errors.Is(err, bus.ErrFull) {
			t.Fatalf("got %v", err)
		}
		published := make(chan error)
		go func() {
			_, err := b.Publish(t.Context(), bus.Message{Subject: b.Session("waits"), Body: []byte(text), Timeout: bus.NoTimeout, WaitIfFull: true})
			published <- err
		}()
		time.Sleep(2 * time.Minute) // the pauses of the publish are long
		put(t, b, b.Result("s", "c"), text)
		check(t, k)
		if r, ok := b.Space().Refusing(); !ok {
			t.Errorf("while the server refuses sessions and stores results: %v", r)
		}
		limit(-1)
		if err := <-published; err != nil {
			t.Error(err)
		}
		check(t, k)
		if err := k.Ready(); err != nil {
			t.Errorf("after the publish: %v", err)
		}
	})
}

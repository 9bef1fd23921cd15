package retention_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// tiny is the size of the streams of these tests.
const tiny = 1 << 20

func connect(t *testing.T, bytes map[string]int64) *bus.Bus {
	t.Helper()
	return bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 16 << 20, StreamBytes: bytes})
}

func put(t *testing.T, b *bus.Bus, subject, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Timeout)
	defer cancel()
	if _, err := b.Publish(ctx, bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, k *retention.Keeper) {
	t.Helper()
	if err := k.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, b *bus.Bus, stream, subject string) bool {
	t.Helper()
	_, ok, err := bustest.Message(b.Last(t.Context(), stream, subject))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// text is a result of 10 KiB.
var text = `{"outcome":"completed","for_llm":"` + strings.Repeat("x", 10<<10) + `"}`

// Seven hours of results, or a week with STEVEDORE_RETENTION_WEEK=1, pass through a stream
// that holds three hours of them. The stream never
// rejects one, and it keeps those of the last hour. The records of a session with a waiting
// call, with a parked call, and with an async call that has not ended stay as well.
func TestWeekOfResults(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		log := &bytes.Buffer{}
		k := retention.New(b, retention.Config{Log: zerolog.New(log)})
		put(t, b, b.Result("first", "c"), text)
		for _, session := range []string{"waiting", "intake", "parked", "async"} {
			put(t, b, b.Claim(session, "c0"), "{}")
			put(t, b, b.Result(session, "c0"), text)
		}
		put(t, b, "stevedore.call.default.slow.waiting.c1", "{}")
		put(t, b, "stevedore.call.default.slow.intake.c1", `{}`)
		if kv, err := b.Bucket(t.Context(), bus.TasksBucket); err != nil {
			t.Fatal(err)
		} else if _, err := kv.PutString(t.Context(), "call.parked.c1", `{"parks":1,"parked":{"call":{"id":"c1","session":"parked","tool":"x"},"queue":"default"}}`); err != nil {
			t.Fatal(err)
		}
		put(t, b, b.Result("async", "c1"), `{"outcome":"async"}`)
		put(t, b, b.Result("ended", "c1"), `{"outcome":"async"}`)
		put(t, b, b.Completion("ended", "c1"), `{"id":"c1","session":"ended","outcome":"completed"}`)
		put(t, b, b.Claim("ended", "c2"), "{}")

		const perHour = 30
		hours := 7
		if os.Getenv("STEVEDORE_RETENTION_WEEK") != "" {
			hours = 7*24 - 1 // the server removes what is older
		}
		for i := range hours * perHour {
			time.Sleep(time.Hour / perHour)
			put(t, b, b.Result(fmt.Sprint("s", i%100), fmt.Sprint("c", i)), text)
			if i%5 == 0 {
				check(t, k)
			}
			if i > perHour && !stored(t, b, bus.Results, b.Result(fmt.Sprint("s", (i-perHour+1)%100), fmt.Sprint("c", i-perHour+1))) {
				t.Fatalf("a result of the last hour was removed after %d", i)
			}
		}
		for _, session := range []string{"waiting", "intake", "parked", "async"} {
			if !stored(t, b, bus.Results, b.Claim(session, "c0")) || !stored(t, b, bus.Results, b.Result(session, "c0")) {
				t.Errorf("a record of the session %q, which has work in progress, was removed", session)
			}
		}
		if stored(t, b, bus.Results, b.Result("first", "c")) || stored(t, b, bus.Results, b.Claim("ended", "c2")) {
			t.Error("the oldest records are stored")
		}
		// The records that stay are the oldest ones, but others after them were removed.
		since, err := new(retention.Drops).CompleteSince(t.Context(), b)
		if err != nil || time.Since(since) > 3*time.Hour || time.Since(since) < time.Hour {
			t.Errorf("complete since %s (%v), which is %s ago", since, err, time.Since(since))
		}
		if f := k.Fills(); len(f) == 0 || k.Ready() != nil {
			t.Errorf("fills %v, ready: %v", f, k.Ready())
		}
		if strings.Contains(log.String(), "nearly full") {
			t.Errorf("warned:\n%s", log)
		}
	})
}

// A stream full of young records keeps them. The keeper warns once a minute and is not
// ready, and a rejected publish says why.
func TestYoungRecordsStay(t *testing.T) {
	b := connect(t, map[string]int64{"results": tiny})
	var log bytes.Buffer
	k := retention.New(b, retention.Config{Log: zerolog.New(&log)})
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", fmt.Sprint("c", n)), Body: []byte(text)})
	}
	for _, part := range []string{"stream STEVEDORE_RESULTS is", "% full", "of 1 MiB", "workers remove its oldest records"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q lacks %q", err, part)
		}
	}
	for range 3 {
		check(t, k)
	}
	if got := bustest.Messages(t, b, bus.Results); got != n-1 {
		t.Errorf("%d records are left of %d", got, n-1)
	}
	if err := k.Ready(); err == nil || !strings.Contains(err.Error(), "STEVEDORE_RESULTS") {
		t.Errorf("ready: %v", err)
	}
	if warnings := strings.Count(log.String(), "nearly full"); warnings != 1 {
		t.Errorf("%d warnings:\n%s", warnings, &log)
	}
	// With a shorter minimum age, the oldest go.
	k = retention.New(b, retention.Config{MinAge: time.Nanosecond})
	check(t, k)
	if err := k.Ready(); err != nil && !strings.Contains(err.Error(), "refuses writes") {
		t.Errorf("ready: %v", err)
	}
	put(t, b, b.Result("s", "new"), text)

	// A stream that lost the version of its format is trimmed, but nobody else connects.
	stream, err := b.Stream(t.Context(), bus.Outbox)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata = map[string]string{"made": "by hand"}
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	check(t, k)
	if _, ok := errors.AsType[*jsapi.FormatError](k.Ready()); !ok {
		t.Errorf("ready: %v", k.Ready())
	}
}

// A full calls stream is backpressure, and the error says what it waits for.
func TestFullCallsExplained(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"calls": tiny, "results": tiny})
		n := 0
		submit := func() (err error) {
			for ; err == nil; n++ {
				_, err = b.Publish(t.Context(), bus.Message{Subject: fmt.Sprint("stevedore.call.default.echo.s.c", n), Body: []byte(text)})
			}
			return err
		}
		if err := submit(); !strings.Contains(err.Error(), "stream STEVEDORE_CALLS is") || !strings.Contains(err.Error(), "calls wait for workers") || strings.Contains(err.Error(), "RESULTS") {
			t.Errorf("got %v", err)
		}
		for n, err := 0, error(nil); err == nil; n++ {
			_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", fmt.Sprint("c", n)), Body: []byte(text)})
		}
		time.Sleep(1100 * time.Millisecond) // the bus remembers a fill for a second
		if err := submit(); !strings.Contains(err.Error(), "because stream STEVEDORE_RESULTS is") {
			t.Errorf("got %v", err)
		}
	})
}

// Conversations go whole, the one that was used longest ago first, and neither one that
// was used lately nor one with a waiting call.
func TestOldConversations(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"sessions": tiny})
		k := retention.New(b, retention.Config{})
		put(t, b, b.Session("used"), text)
		put(t, b, b.Session("busy"), text)
		put(t, b, "stevedore.call.default.agent.busy.c1", "{}")
		for i := range 200 {
			time.Sleep(4 * time.Minute)
			put(t, b, b.Session(fmt.Sprint("s", i)), text)
			put(t, b, b.Session(fmt.Sprint("s", i)), text)
			if i%10 == 9 {
				put(t, b, b.Session("used"), text)
			}
			check(t, k)
		}
		for session, want := range map[string]bool{"used": true, "busy": true, "s199": true, "s186": true, "s0": false, "s100": false} {
			if stored(t, b, bus.Sessions, b.Session(session)) != want {
				t.Errorf("conversation %q is stored: %v", session, !want)
			}
		}
		s, err := b.Stream(t.Context(), bus.Sessions)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(b.Session("used")))
		if n := info.State.Subjects[b.Session("used")]; err != nil || n != 21 {
			t.Errorf("%d entries of the conversation that is in use, want 21 (%v)", n, err)
		}

		// Without pressure, conversations go after their time to live.
		k = retention.New(b, retention.Config{SessionsTTL: 10 * time.Hour})
		for range 8 {
			time.Sleep(time.Hour)
			check(t, k)
		}
		if !stored(t, b, bus.Sessions, b.Session("s199")) {
			t.Error("a conversation was removed after 8 hours")
		}
		put(t, b, b.Session("used"), text)
		for range 4 {
			time.Sleep(time.Hour)
			check(t, k)
		}
		for session, want := range map[string]bool{"used": true, "busy": true, "s199": false} {
			if stored(t, b, bus.Sessions, b.Session(session)) != want {
				t.Errorf("conversation %q is stored after its time to live: %v", session, !want)
			}
		}
	})
}

// A conversation stays if its session gets a call, or has one that begins to wait, while a keeper removes those before it.
func TestConversationIsUsedAgainWhileOthersGo(t *testing.T) {
	t.Parallel()
	b := connect(t, map[string]int64{"sessions": tiny})
	const queued, parked = 440, 460 // of about 490 that have to go
	var last jetstream.PubAckFuture
	for i := range 2000 {
		var err error
		if last, err = b.JetStream().PublishAsync(b.Session(fmt.Sprint("s", i)), []byte(text[:400])); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-last.Ok():
	case err := <-last.Err():
		t.Fatal(err)
	}
	removing := bustest.Subscribe(t, b, b.EntrySubject(retention.TrimmedKey(bus.Sessions)))
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		check(t, retention.New(b, retention.Config{MinAge: time.Nanosecond}))
	}()
	for range 2 { // it has the lease, and removes the first one
		if _, err := removing.NextMsg(bustest.Timeout); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b, b.Call("default", "agent", fmt.Sprint("s", queued), "c"), "{}")
	p := task.Parked{Call: tools.Call{ID: "c", Session: fmt.Sprint("s", parked), Tool: "agent"}, Queue: "default", State: task.Waiting}
	if _, err := task.Park(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	inTime := stored(t, b, bus.Sessions, b.Session(fmt.Sprint("s", queued-1)))
	<-checked
	if !inTime {
		t.Skip("the machine is too busy: the keeper was faster")
	}
	for i, want := range map[int]bool{queued - 1: false, queued: true, queued + 1: false, parked - 1: false, parked: true, parked + 1: false} {
		if stored(t, b, bus.Sessions, b.Session(fmt.Sprint("s", i))) != want {
			t.Errorf("conversation %d is stored: %v", i, !want)
		}
	}
}

// A replica that stood still answers with what it has. A keeper removes nothing that this replica does not show it, and no
// conversation whose last entry the replica lacks.
func TestTrimBesideAReplicaThatLags(t *testing.T) {
	const all = 90
	for i := range 10 { // it answers half of the requests
		stream, subject := bus.Results, func(b *bus.Bus, i int) string { return b.Result(fmt.Sprint("s", i), "c") }
		known, stays := 5, 60
		if i%2 > 0 {
			stream, subject = bus.Sessions, func(b *bus.Bus, i int) string { return b.Session(fmt.Sprint("s", i)) }
			known, stays = all, 1
		}
		bustest.Bubble(t, func(t *testing.T) {
			b := connect(t, map[string]int64{strings.ToLower(stream): tiny})
			for i := range all {
				put(t, b, subject(b, i), text)
				if i == 0 {
					bustest.Lag(t, b.JetStream(), b.StreamName(stream), subject(b, 0))
				}
			}
			if stream == bus.Results {
				put(t, b, b.Call("default", "x", "s60", "c"), "{}") // it is in progress
			}
			time.Sleep(2 * time.Hour)
			last := uint64(all)
			if stream == bus.Sessions {
				put(t, b, subject(b, stays), text) // its user goes on
				last++
			}
			lagging, err := b.JetStream().Stream(t.Context(), "lag_"+b.StreamName(stream))
			if err != nil {
				t.Fatal(err)
			}
			bustest.WaitUntil(t, "the replica", func() bool {
				info, err := lagging.Info(t.Context())
				return err == nil && info.State.LastSeq == last
			})
			for sequence := uint64(known) + 1; sequence <= last; sequence++ {
				if err := lagging.DeleteMsg(t.Context(), sequence); err != nil {
					t.Fatal(err)
				}
			}
			check(t, retention.New(b, retention.Config{}))
			get := jsapi.Get{NextBySubject: subject(b, stays), Sequence: 1}
			if m, err := b.API().GetFromLeader(t.Context(), b.StreamName(stream), get); err != nil || m.Sequence != uint64(stays)+1 {
				t.Errorf("the first message on %q is %d, %v", get.NextBySubject, m.Sequence, err)
			}
		})
	}
}

// While one keeper holds the lease of a stream, another one leaves the stream alone. If it
// dies, another one takes over.
func TestOneKeeperTrims(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		for n, err := 0, error(nil); err == nil; n++ {
			_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", fmt.Sprint("c", n)), Body: []byte(text)})
		}
		time.Sleep(2 * time.Hour)
		kv, err := b.Bucket(t.Context(), bus.TasksBucket)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := bus.Encode(retention.Trimmed{Holder: "another", Until: time.Now().Add(time.Minute)})
		if _, err := kv.Put(t.Context(), retention.TrimmedKey(bus.Results), body); err != nil {
			t.Fatal(err)
		}
		k, before := retention.New(b, retention.Config{}), bustest.Messages(t, b, bus.Results)
		check(t, k)
		if got := bustest.Messages(t, b, bus.Results); got != before {
			t.Errorf("%d of %d records are left", got, before)
		}
		time.Sleep(2 * time.Minute)
		check(t, k)
		if got := bustest.Messages(t, b, bus.Results); got >= before*7/10 {
			t.Errorf("%d of %d records are left", got, before)
		}
	})
}

// If the server ran in a process that died, the next one trims immediately: it does not wait
// until the lease of the dead keeper ends.
func TestTakeOverEndsTheLeaseOfAKeeper(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		fill(t, b, "s", "c", nil)
		time.Sleep(2 * time.Hour)
		kv, err := b.Bucket(t.Context(), bus.TasksBucket)
		if err != nil {
			t.Fatal(err)
		}
		removed := time.Now().Add(-3 * time.Hour).UTC()
		body, _ := bus.Encode(retention.Trimmed{Before: removed, Holder: "killed", Until: time.Now().Add(time.Minute)})
		if _, err := kv.Put(t.Context(), retention.TrimmedKey(bus.Results), body); err != nil {
			t.Fatal(err)
		}
		if err := admin.TakeOver(t.Context(), b, bustest.Log(t)); err != nil {
			t.Fatal(err)
		}
		if record, _, err := retention.ReadTrimmed(t.Context(), b, bus.Results); err != nil || !record.Before.Equal(removed) {
			t.Errorf("the record says that those before %v were removed, want %v; %v", record.Before, removed, err)
		}
		before := bustest.Messages(t, b, bus.Results)
		check(t, retention.New(b, retention.Config{}))
		if got := bustest.Messages(t, b, bus.Results); got >= before*7/10 {
			t.Errorf("%d of %d records are left", got, before)
		}
	})
}

// Completions that the notifier has not read stay, unless the stream is nearly full: then new
// work is more important.
func TestUnreadCompletionsStay(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		bustest.Consumers(t, b, b.NotifierConsumer())
		n := 0
		fill := func(ratio float64) {
			for {
				f, err := bus.ReadFill(t.Context(), b, bus.Results)
				if err != nil {
					t.Fatal(err)
				}
				if f.Ratio() >= ratio {
					return
				}
				put(t, b, b.Completion("s", fmt.Sprint("c", n)), text)
				n++
			}
		}
		k := retention.New(b, retention.Config{})
		fill(0.8)
		time.Sleep(2 * time.Hour)
		check(t, k)
		if got := bustest.Messages(t, b, bus.Results); got != n {
			t.Errorf("%d of %d results that the notifier has not read are left", got, n)
		}
		fill(0.96)
		time.Sleep(2 * time.Hour)
		check(t, k)
		if got := bustest.Messages(t, b, bus.Results); got >= n {
			t.Errorf("%d of %d results are left in a stream that is nearly full", got, n)
		}
	})
}

// All records are of one session, which always has a call in progress. If the stream is
// nearly full, the old ones go, except those of that call.
func TestBusySessionDoesNotFillTheStream(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := connect(t, map[string]int64{"results": tiny})
		k := retention.New(b, retention.Config{})
		put(t, b, "stevedore.call.default.slow.s.running", "{}")
		n := 0
		for ; ; n++ {
			if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", fmt.Sprint("c", n)), Body: []byte(text)}); err != nil {
				break
			}
			if n == 50 {
				put(t, b, b.Claim("s", "running"), "{}")
			}
		}
		time.Sleep(2 * time.Hour)
		check(t, k)
		if stored(t, b, bus.Results, b.Result("s", "c0")) || !stored(t, b, bus.Results, b.Claim("s", "running")) {
			t.Error("want the claim of the running call, and no old results")
		}
		put(t, b, b.Result("s", "next"), text)
		if err := k.Ready(); err != nil {
			t.Error(err)
		}
	})
}

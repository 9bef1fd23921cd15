package admin_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

func TestProvisionIsIdempotent(t *testing.T) {
	s := bustest.Server(t)
	b := bustest.Dial(t, s, bus.Config{})
	for _, created := range []int{10, 0} {
		got, err := admin.Provision(t.Context(), b, admin.Nothing)
		if err != nil || len(got.Differences) != 0 || len(got.Created) != created || created > 0 && got.Created[created-2] != b.StreamName(bus.Calls) {
			t.Fatalf("got %+v, %v, want %d created", got, err, created)
		}
	}
	for _, stream := range []string{bus.Calls, bus.Results, bus.Ticks, bus.Outbox, bus.Sessions, bus.Dead} {
		if _, err := b.JetStream().Stream(t.Context(), b.StreamName(stream)); err != nil {
			t.Errorf("%s: %v", stream, err)
		}
	}
}

// Provision does not change existing streams and returns the differences. An update
// applies these and nothing else. Message TTLs stay, because the server cannot switch them off.
func TestProvisionExisting(t *testing.T) {
	b := bustest.Dial(t, bustest.Server(t), bus.Config{ResultsTTL: bus.ResultsKept})
	name := b.StreamName(bus.Results)
	if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{
		Name: name, Description: "the operator's", Subjects: []string{"stevedore.result.*.*", "stevedore.completion.*.*", "stevedore.claim.*.*"},
		MaxMsgsPerSubject: 5, MaxMsgs: 3, MaxMsgSize: 100, MaxAge: time.Hour, AllowMsgTTL: true, Metadata: map[string]string{"team": "ops", "stevedore.format": "3"}, Compression: jetstream.S2Compression,
	}); err != nil {
		t.Fatal(err)
	}
	got, err := admin.Provision(t.Context(), b, admin.Nothing)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range got.Differences {
		if d.Name != name {
			t.Errorf("difference of another stream: %s", d)
		}
		all = append(all, d.String())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"max_msgs_per_subject is 5, want 1", "discard_new_per_subject is false, want true", "max_age is 1h0m0s, want 168h0m0s", "max_msgs is 3, want -1", "max_msg_size is 100, want -1"} {
		if !strings.Contains(text, want) {
			t.Errorf("differences lack %q:\n%s", want, text)
		}
	}
	if c := config(t, b, name); c.MaxMsgsPerSubject != 5 || c.MaxAge != time.Hour {
		t.Errorf("the stream was altered: %+v", c)
	}

	if _, err := admin.Provision(t.Context(), b, admin.Everything); err != nil {
		t.Fatal(err)
	}
	updated := config(t, b, name)
	if updated.MaxMsgsPerSubject != 1 || !updated.DiscardNewPerSubject || updated.MaxAge != 7*24*time.Hour {
		t.Errorf("not updated: %+v", updated)
	}
	if updated.Description != "the operator's" || updated.Metadata["team"] != "ops" || updated.Compression != jetstream.S2Compression {
		t.Errorf("the operator's own settings are lost: %+v", updated)
	}
	if got, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil || len(got.Differences) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The operator decides how long results and dead letters are kept, also for a shorter time than keys. Neither an update nor a
// start of "stevedore up" changes that, which would remove letters that are older than the default.
func TestProvisionKeepsAges(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{})
	for _, stream := range []string{bus.Results, bus.Dead} {
		for _, age := range []time.Duration{time.Second, 365 * 24 * time.Hour, 0} {
			own := config(t, b, b.StreamName(stream))
			own.MaxAge, own.MaxMsgSize = age, 300
			if age > 0 { // the server wants this
				own.Duplicates = min(own.Duplicates, age)
			}
			if _, err := b.JetStream().UpdateStream(t.Context(), own); err != nil {
				t.Fatal(err)
			}
			for _, change := range []admin.Change{admin.Nothing, admin.Limits, admin.Everything, admin.Nothing} {
				if _, err := admin.Provision(t.Context(), b, change); err != nil {
					t.Fatal(err)
				}
				if c := config(t, b, own.Name); c.MaxAge != age || change == admin.Everything && c.MaxMsgSize != -1 {
					t.Errorf("change %d of %s with max_age %s: %+v", change, own.Name, age, c)
				}
			}
			if got, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil || len(got.Differences) > 0 {
				t.Errorf("%s with max_age %s: %v, %v", own.Name, age, got.Differences, err)
			}
		}
	}
}

func config(t *testing.T, b *bus.Bus, stream string) jetstream.StreamConfig {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config
}

// Workers that start together can provision together.
func TestProvisionConcurrently(t *testing.T) {
	s := bustest.Server(t)
	var wg sync.WaitGroup
	for range 4 {
		b := bustest.Dial(t, s, bus.Config{})
		wg.Go(func() {
			if got, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil || len(got.Differences) != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// Two prefixes on one server are independent.
func TestProvisionPrefixes(t *testing.T) {
	s := bustest.Start(t, embedded.Config{NoSync: true, MaxStore: 100 << 30}) // both have the sizes for this disk, which may be too small for two
	one, two := bustest.Connect(t, s, bus.Config{Prefix: "one"}), bustest.Connect(t, s, bus.Config{Prefix: "two.deep"})
	if _, err := one.Publish(t.Context(), bus.Message{Subject: one.Result("s", "c"), Body: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := bustest.Message(two.Last(t.Context(), bus.Results, two.Result("s", "c"))); ok || err != nil {
		t.Errorf("found %v, %v", ok, err)
	}
}

// A request gets no answer while its stream has no leader. Provision asks again.
func TestProvisionAsksAgain(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := bustest.Listen(t)
	proxy := bustest.NewProxy(t, s)
	b := proxy.Connect(t)
	proxy.DropReplies()
	done := make(chan error, 1)
	go func() {
		_, err := admin.Provision(t.Context(), b, admin.Nothing)
		done <- err
	}()
	bustest.WaitUntil(t, "a lost answer", proxy.Affected)
	proxy.Heal()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(bustest.Timeout):
		t.Error("it waits for the lost answer")
	}
}

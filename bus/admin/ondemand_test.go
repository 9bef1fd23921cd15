package admin_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// onDemand provisions a server with the streams that every call needs.
func onDemand(t *testing.T, s *embedded.Server) *bus.Bus {
	t.Helper()
	b := bustest.Dial(t, s, bus.Config{OnDemand: true, MaxBytes: 32 << 20})
	got, err := admin.Provision(t.Context(), b, admin.Nothing)
	if err != nil || len(got.Created) != 5 || got.Created[3] != b.StreamName(bus.Calls) {
		t.Fatalf("created %q, %v", got.Created, err)
	}
	return b
}

func exists(t *testing.T, b *bus.Bus, name string) bool {
	t.Helper()
	_, err := b.JetStream().Stream(t.Context(), name)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// Until something is stored in it, a stream is empty for all readers, and nothing creates it.
func TestUnusedStreamsAreEmpty(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	onDemand(t, s)
	b := bustest.Dial(t, s, bus.Config{}) // another process, which does not know
	ctx := t.Context()
	if got, err := admin.Provision(ctx, b, admin.Everything); err != nil || len(got.Created)+len(got.Differences) > 0 || len(got.Unused) != 5 {
		t.Errorf("a later provision: %+v, %v", got, err)
	}
	for stream, subject := range map[string]string{
		bus.Ticks: b.Schedule(bus.Cron, "x"), bus.Outbox: b.NotifyAny("x"), bus.Sessions: b.Session("x"), bus.Dead: b.Dead(bus.DeadCall, "x"),
	} {
		for _, back := range []bool{false, true} {
			for m, err := range b.Read(ctx, stream, bus.Query{Back: back}) {
				t.Errorf("%s has %v, %v", stream, m, err)
			}
		}
		if m, err := b.Last(ctx, stream, subject); err != nil || m.Sequence > 0 {
			t.Errorf("%s has %v, %v", stream, m, err)
		}
	}
	if names, err := session.New(b).List(ctx); err != nil || len(names) > 0 {
		t.Errorf("sessions: %v, %v", names, err)
	}
	if entries, last, err := session.New(b).Read(ctx, "x", 0); err != nil || len(entries) > 0 || last > 0 {
		t.Errorf("entries: %v, %v", entries, err)
	}
	if err := session.New(b).Remove(ctx, "x", 1); err != nil {
		t.Errorf("remove: %v", err)
	}
	for s, err := range cron.New(b).List(ctx, cron.Caller{Operator: true}, "", "") {
		t.Errorf("schedules: %v, %v", s, err)
	}
	if existed, err := cron.New(b).Delete(ctx, "x"); existed || err != nil {
		t.Errorf("delete: %t, %v", existed, err)
	}
	exist, err := bus.CheckStreams(ctx, b)
	if err != nil || len(exist) != 5 {
		t.Errorf("streams: %v, %v", exist, err)
	}
	if fills, err := bus.ReadFills(ctx, b, exist); err != nil || len(fills) != 2 {
		t.Errorf("fills: %v, %v", fills, err)
	}
	if got := status.Read(ctx, b); slices.ContainsFunc(got.Problems, func(p status.Problem) bool { return p.Code != status.NoWorker }) || len(got.Errors) > 0 {
		t.Errorf("status: %+v, %q", got.Problems, got.Errors)
	}
	for _, name := range b.OnDemand() {
		if exists(t, b, name) {
			t.Errorf("%s exists", name)
		}
	}
}

// What is stored first creates the stream as Provision would, also while a plain subscriber hears
// the subject, so that the server does not say that nobody stores it.
func TestFirstUseCreatesStreams(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	onDemand(t, s)
	b := bustest.Dial(t, s, bus.Config{}) // a process that knows no sizes
	ctx := t.Context()
	bustest.Subscribe(t, b, b.Prefix()+".>")
	for _, subject := range []string{b.NotifyAny("x"), b.Session("x"), b.Dead(bus.DeadCall, "x")} {
		if ack, err := b.Publish(ctx, bus.Message{Subject: subject, Body: []byte("{}"), Timeout: time.Second}); err != nil || ack.Sequence != 1 {
			t.Fatalf("%s: %+v, %v", subject, ack, err)
		}
	}
	if _, err := cron.New(b).Put(ctx, cron.Job{Name: "x", Tool: "x", Every: time.Hour}, true); err != nil {
		t.Errorf("schedule: %v", err)
	}
	kv, err := b.Bucket(ctx, bus.StateBucket)
	if err == nil {
		_, err = kv.PutString(ctx, "k", "v")
	}
	if err != nil {
		t.Errorf("state: %v", err)
	}
	cfg := bus.Config{MaxBytes: 32 << 20}
	for _, want := range append(b.Streams(cfg), b.Buckets(cfg)...) {
		if have := config(t, b, want.Name); have.MaxBytes != want.MaxBytes && want.MaxBytes > 0 || have.Metadata["stevedore.format"] != "3" {
			t.Errorf("%s: %d bytes, %v", want.Name, have.MaxBytes, have.Metadata)
		}
	}
	if got, err := admin.Provision(ctx, b, admin.Nothing); err != nil || len(got.Created)+len(got.Differences) > 0 {
		t.Errorf("provision: %+v, %v", got, err)
	}
}

// A process that has used such a stream creates it again after somebody deleted it.
func TestUsedStreamIsCreatedAgain(t *testing.T) {
	t.Parallel()
	b := onDemand(t, bustest.Server(t))
	for range 2 {
		ack, err := b.Publish(t.Context(), bus.Message{Subject: b.Dead(bus.DeadCall, "x"), Body: []byte("{}")})
		if err != nil || ack.Sequence != 1 {
			t.Fatalf("%+v, %v", ack, err)
		}
		if _, err := b.Stream(t.Context(), bus.Dead); err != nil {
			t.Fatal(err)
		}
		if err := b.JetStream().DeleteStream(t.Context(), b.StreamName(bus.Dead)); err != nil {
			t.Fatal(err)
		}
	}
}

// A stream that is missing for another reason is not taken for an empty one.
func TestDeletedStreamIsAnError(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	if err := b.JetStream().DeleteStream(t.Context(), b.StreamName(bus.Dead)); err != nil {
		t.Fatal(err)
	}
	for _, err := range b.Read(t.Context(), bus.Dead, bus.Query{}) {
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("read: %v", err)
		}
	}
	if _, err := b.Last(t.Context(), bus.Dead, b.Dead(bus.DeadCall, "x")); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("last: %v", err)
	}
	if _, err := bus.CheckStreams(t.Context(), b); err == nil || !strings.Contains(err.Error(), b.StreamName(bus.Dead)) {
		t.Errorf("check: %v", err)
	}
	other := bustest.Dial(t, bustest.Server(t), bus.Config{}) // nothing is provisioned
	for _, err := range other.Read(t.Context(), bus.Dead, bus.Query{}) {
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("read: %v", err)
		}
	}
}

// A consumer of ticks waits for their stream, which another process creates.
func TestConsumerAwaitsItsStream(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	b, other := onDemand(t, s), bustest.Dial(t, s, bus.Config{})
	ticks, before := make(chan string, 1), b.Conn().NumSubscriptions()
	bustest.Run(t, func(ctx context.Context) error {
		return consume.Run(ctx, b, b.TickConsumer(), consume.Config{AwaitUse: true}, func(_ context.Context, d *consume.Delivery) error {
			ticks <- d.Subject
			return nil
		})
	})
	bustest.WaitUntil(t, "the consumer to wait", func() bool { return b.Conn().NumSubscriptions() > before })
	if exists(t, b, b.StreamName(bus.Ticks)) {
		t.Error("the consumer created its stream")
	}
	if _, err := other.Publish(t.Context(), bus.Message{Subject: other.Tick(bus.Cron, "x"), Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ticks:
	case <-time.After(bustest.Timeout):
		t.Fatal("no tick")
	}
	// One that does not wait creates its stream: a notifier shows the channels that it serves.
	bustest.Consumers(t, b, b.ChannelConsumer("x"))
	if !exists(t, b, b.StreamName(bus.Outbox)) {
		t.Error("the consumer of a channel has no stream")
	}
}

// A backup has the streams that were used, and the restored bus knows that the others were not.
func TestBackupOfUsedStreams(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	b := onDemand(t, s)
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Session("x"), Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	saved, err := admin.Backup(t.Context(), b, dir, func(string) {})
	if err != nil || len(saved) != 6 {
		t.Fatalf("saved %v, %v", saved, err)
	}
	to := bustest.Dial(t, bustest.Server(t), bus.Config{})
	if restored, err := admin.Restore(t.Context(), to, dir, func(string) {}); err != nil || len(restored) != 6 {
		t.Fatalf("restored %v, %v", restored, err)
	}
	if entries, _, err := session.New(to).Read(t.Context(), "x", 0); err != nil || len(entries) != 1 {
		t.Errorf("entries: %q, %v", entries, err)
	}
	for _, err := range to.Read(t.Context(), bus.Dead, bus.Query{}) {
		t.Errorf("a stream that was not used: %v", err)
	}
}

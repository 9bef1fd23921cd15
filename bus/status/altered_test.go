package status_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// The status names a stream that somebody has changed so that it does not store all subjects, and one that was
// sealed. Subjects with more wildcards store them, and so do further ones.
func TestAlteredStreamsAreNamed(t *testing.T) {
	server := bustest.Server(t)
	b := bustest.Connect(t, server, bus.Config{Log: bustest.Log(t)})
	withoutSizes := bustest.Dial(t, server, bus.Config{})
	named := func(code, name, text string) bool {
		t.Helper()
		found := false
		for _, p := range append(status.Read(t.Context(), b).Problems, status.ReadRefusals(t.Context(), b)...) {
			switch {
			case p.Code == code && p.Name == name && problem(status.Status{Problems: []status.Problem{p}}, text):
				found = true
			case p.Code != status.NoWorker:
				t.Errorf("also: %q", p)
			}
		}
		return found
	}
	alter := func(name string, change func(*jetstream.StreamConfig)) {
		t.Helper()
		s, err := b.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		config := s.CachedInfo().Config
		change(&config)
		if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		stream   string
		subjects []string
		lacks    string
	}{
		{"STEVEDORE_RESULTS", []string{"stevedore.completion.*.*"}, "does not have the subjects stevedore.result.*.*, stevedore.claim.*.*, stevedore.report.*.*:"},
		{"STEVEDORE_RESULTS", []string{"stevedore.result.>", "stevedore.claim.*.*", "stevedore.completion.>", "stevedore.report.*.*"}, ""},
		{"STEVEDORE_RESULTS", []string{"stevedore.result.s.*", "stevedore.claim.*", "stevedore.completion.*.*", "stevedore.report.*.*"}, "subjects stevedore.result.*.*, stevedore.claim.*.*:"},
		{"STEVEDORE_RESULTS", []string{"stevedore.result.*.*", "stevedore.completion.*.*", "stevedore.claim.*.*", "stevedore.report.*.*", "mine"}, ""},
		{"KV_stevedore_state", []string{"mine.too"}, "subjects $KV.stevedore_state.>:"},
		{"KV_stevedore_state", []string{"$KV.stevedore_state.>"}, ""},
	} {
		alter(c.stream, func(config *jetstream.StreamConfig) { config.Subjects = c.subjects })
		if named(status.StreamAltered, c.stream, c.lacks) != (c.lacks != "") {
			t.Errorf("%s with %q", c.stream, c.subjects)
		}
	}
	alter("STEVEDORE_TICKS", func(config *jetstream.StreamConfig) { config.Subjects = append(config.Subjects, "foreign") })
	if _, err := b.JetStream().Publish(t.Context(), "foreign", nil); err != nil || named(status.StreamAltered, "STEVEDORE_TICKS", "") {
		t.Errorf("with a message of another program: %v", err)
	}
	for _, c := range []struct {
		stream string
		change func(*jetstream.StreamConfig)
		limit  string
	}{
		{"KV_stevedore_artifacts", func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = time.Minute, time.Minute }, "seen: max_age is 1m0s, want 0s."},
		{"STEVEDORE_TICKS", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 }, "seen: max_msgs is 1, want -1."},
		{"STEVEDORE_TICKS", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, "seen: max_bytes is 1048576, want -1."},
		{"STEVEDORE_CALLS", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 300 }, "seen: max_msg_size is 300, want -1."},
		{"STEVEDORE_SESSIONS", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "seen: max_msgs_per_subject is 5, want -1."},
		{"STEVEDORE_CALLS", func(c *jetstream.StreamConfig) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false },
			"seen: discard is DiscardOld, want DiscardNew; discard_new_per_subject is false, want true."},
		{"STEVEDORE_RESULTS", func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = false }, "seen: discard_new_per_subject is false, want true."},
		{"STEVEDORE_RESULTS", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }, "seen: max_msgs_per_subject is 2, want 1."},
		{"STEVEDORE_RESULTS", func(c *jetstream.StreamConfig) { c.RePublish = nil }, "seen: republish is none, want {stevedore.*.*.* "},
		{"STEVEDORE_RESULTS", func(c *jetstream.StreamConfig) { c.RePublish.HeadersOnly = true }, "seen: republish is {stevedore.*.*.* "},
		{"STEVEDORE_SESSIONS", func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }, "seen: allow_atomic is false, want true."},
		{"STEVEDORE_CALLS", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "seen: allow_direct is false, want true."},
		{"KV_stevedore_tasks", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "seen: allow_direct is false, want true."},
		{"STEVEDORE_OUTBOX", func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }, "seen: duplicate_window is 1s, want 10m0s."},
		{"STEVEDORE_RESULTS", func(c *jetstream.StreamConfig) { c.NoAck = true }, "seen: no_ack is true, want false."},
		{"STEVEDORE_DEAD", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "stevedore.dead.call.*", Destination: "away.{{wildcard(1)}}"}
		}, "seen: subject_transform is {stevedore.dead.call.* away.{{wildcard(1)}}}, want none."},
		{"STEVEDORE_OUTBOX", func(c *jetstream.StreamConfig) { c.Duplicates, c.MaxBytes = time.Hour, 1<<20 }, ""},
		{"STEVEDORE_DEAD", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }, ""},
		{"STEVEDORE_DEAD", func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = time.Hour, time.Hour }, ""}, // a choice
		{"STEVEDORE_RESULTS", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, ""},                       // a choice
	} {
		alter(c.stream, c.change)
		if named(status.StreamAltered, c.stream, c.limit) != (c.limit != "") {
			t.Errorf("%s with %q", c.stream, c.limit)
		}
		if _, err := admin.Provision(t.Context(), withoutSizes, admin.Everything); err != nil { // the remedy
			t.Fatal(err)
		}
		if s := status.Read(t.Context(), b); problem(s, "seen:") {
			t.Errorf("after the update: %q", s.Problems)
		}
	}
	alter("STEVEDORE_CALLS", func(config *jetstream.StreamConfig) { config.Sealed = true })
	alter("STEVEDORE_DEAD", func(config *jetstream.StreamConfig) { config.DenyDelete = true })
	alter("STEVEDORE_SESSIONS", func(config *jetstream.StreamConfig) { config.DenyPurge = true })
	alter("STEVEDORE_OUTBOX", func(config *jetstream.StreamConfig) { config.AllowMsgTTL = true })
	s := status.Read(t.Context(), b)
	for _, text := range []string{"STEVEDORE_CALLS is sealed: it stores nothing", "allow_msg_ttl on the stream STEVEDORE_OUTBOX",
		"STEVEDORE_DEAD denies purges or deletions", "STEVEDORE_SESSIONS denies purges or deletions"} {
		if !problem(s, text) || len(s.Problems) != 5 {
			t.Errorf("want %q in %q", text, s.Problems)
		}
	}
}

// The streams of another prefix, which begins in the same way, are not ours.
func TestStreamsOfAnotherPrefix(t *testing.T) {
	server := bustest.Server(t)
	b := bustest.Connect(t, server, bus.Config{Prefix: "acme", MaxBytes: bus.MinMaxBytes})
	bustest.Connect(t, server, bus.Config{Prefix: "acme_test", MaxBytes: bus.MinMaxBytes})
	if s := status.Read(t.Context(), b); len(s.Streams) != len(b.All(bus.Config{})) || len(s.Errors) > 0 {
		t.Errorf("%+v, %q", s.Streams, s.Errors)
	}
}

// The status names a record of a call that nobody can read, until it is removed.
func TestDamagedRecordIsNamed(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
	kv, err := b.Bucket(t.Context(), bus.TasksBucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"call.s.c", "call.s.other"} {
		if _, err := kv.PutString(t.Context(), key, `{"parked":{"call":{"id":"other","session":"s","tool":"x"},"queue":"default"}}`); err != nil {
			t.Fatal(err)
		}
	}
	if s := status.Read(t.Context(), b); !problem(s, "The record stevedore_tasks call.s.c of a call cannot be read") || problem(s, "call.s.other") {
		t.Errorf("%q", s.Problems)
	}
	if err := kv.Delete(t.Context(), "call.s.c"); err != nil {
		t.Fatal(err)
	}
	if s := status.Read(t.Context(), b); problem(s, "cannot be read") || len(s.Errors) > 0 {
		t.Errorf("after the removal: %q, %q", s.Problems, s.Errors)
	}
}

// The status names a consumer that somebody has changed so that it does not deliver all of its messages, and a process
// that starts to consume changes it back.
func TestAlteredConsumerIsNamed(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
	for _, c := range []bus.Consumer{b.WorkerConsumer(bus.DefaultQueue), b.TickConsumer(), b.NotifierConsumer(), b.HeartbeatConsumer(), b.DeadConsumer(), b.ChannelConsumer("c")} {
		for _, change := range []func(*jetstream.ConsumerConfig){
			func(config *jetstream.ConsumerConfig) {
				config.FilterSubjects, config.FilterSubject = nil, "stevedore.nothing"
			},
			func(config *jetstream.ConsumerConfig) { config.HeadersOnly = true },
			func(config *jetstream.ConsumerConfig) { config.MaxAckPending = 2 },
			func(config *jetstream.ConsumerConfig) { config.MaxDeliver = 3 },
			func(config *jetstream.ConsumerConfig) {
				config.MaxDeliver, config.BackOff = 3, []time.Duration{time.Second}
			},
		} {
			testAlteredConsumer(t, b, c, change)
		}
		testPausedConsumer(t, b, c)
	}
}

func testAlteredConsumer(t *testing.T, b *bus.Bus, c bus.Consumer, change func(*jetstream.ConsumerConfig)) {
	consumer, err := b.Consumer(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	config := consumer.CachedInfo().Config
	change(&config)
	check := func(altered bool) {
		t.Helper()
		if s := status.Read(t.Context(), b); problem(s, "Somebody has changed the consumer "+b.StreamName(c.Stream)+" "+c.Name) != altered {
			t.Errorf("altered %v: %q", altered, s.Problems)
		}
	}
	check(false)
	if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(c.Stream), config); err != nil {
		t.Fatal(err)
	}
	check(true)
	if _, err := b.Consumer(t.Context(), c); err != nil { // the remedy
		t.Fatal(err)
	}
	check(false)
	after, err := b.JetStream().Consumer(t.Context(), b.StreamName(c.Stream), c.Name)
	if err != nil {
		t.Fatal(err)
	}
	before, have := consumer.CachedInfo().Config, after.CachedInfo().Config
	if have.AckWait != before.AckWait || have.MaxAckPending != before.MaxAckPending || have.MaxDeliver != -1 || have.BackOff != nil {
		t.Errorf("after the remedy: %+v", have)
	}
}

func testPausedConsumer(t *testing.T, b *bus.Bus, c bus.Consumer) {
	if _, err := b.Consumer(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().PauseConsumer(t.Context(), b.StreamName(c.Stream), c.Name, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	name := b.StreamName(c.Stream) + " " + c.Name
	if s := status.Read(t.Context(), b); !problem(s, "The consumer "+name+" is paused") {
		t.Errorf("%s: %q", name, s.Problems)
	}
	if _, err := b.JetStream().ResumeConsumer(t.Context(), b.StreamName(c.Stream), c.Name); err != nil {
		t.Fatal(err)
	}
	if s := status.Read(t.Context(), b); problem(s, "is paused") {
		t.Errorf("%s: %q", name, s.Problems)
	}
}

package bus

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Streams, by their name behind the prefix.
const (
	Calls    = "CALLS"
	Results  = "RESULTS"
	Ticks    = "TICKS"
	Outbox   = "OUTBOX"
	Sessions = "SESSIONS"
	Dead     = "DEAD"
)

// ResultsKept is how long results, and so the first that won, are remembered.
const ResultsKept = 7 * 24 * time.Hour

// resultsShare is how much more the results may take than the other streams:
// they stay for days, and workers stop when they have no room.
const resultsShare = 4

// Buckets, by their name behind the prefix.
const (
	StateBucket     = "state"
	ArtifactsBucket = "artifacts"
	TasksBucket     = "tasks"
	BlobsBucket     = "blobs"
)

// StreamName returns the full name of one of the streams above.
func (b *Bus) StreamName(stream string) string {
	return strings.ToUpper(strings.ReplaceAll(b.prefix, ".", "_")) + "_" + stream
}

// BucketName returns the full name of one of the buckets above.
func (b *Bus) BucketName(bucket string) string {
	return strings.ReplaceAll(b.prefix, ".", "_") + "_" + bucket
}

// keysKept is how long the streams of calls and notifications know the keys of
// messages, so that a repeated publish makes none.
const keysKept = 10 * time.Minute

// streams is the topology as data: what must be there, and why it is so.
func (b *Bus) streams() []jetstream.StreamConfig {
	base := func(name, description string, subjects ...string) jetstream.StreamConfig {
		for i, s := range subjects {
			subjects[i] = b.prefix + "." + s
		}
		return jetstream.StreamConfig{
			Name: b.StreamName(name), Description: description, Subjects: subjects,
			Storage: jetstream.FileStorage, Replicas: max(b.cfg.Replicas, 1),
			// A full stream refuses, so that what was accepted is kept.
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
			MaxBytes: b.maxBytes(), MaxMsgs: -1, MaxMsgsPerSubject: -1,
			AllowDirect: true, Duplicates: 2 * time.Minute,
		}
	}

	// Tools have one token; more of them are captured to be dead-lettered with
	// a reason instead of vanishing.
	calls := base(Calls, "calls and raw results that wait for a worker", "call.*.>", "raw.*.>")
	calls.Retention = jetstream.WorkQueuePolicy
	calls.Duplicates = keysKept
	calls.AllowMsgTTL = true // a client may say how long a call is worth running

	// One message per subject, and the first one stays: the first result wins
	// and the first claim holds, whatever language the client speaks.
	results := base(Results, "results, completions and claims; the first of each wins", "result.*.*", "completion.*.*", "claim.*.*")
	results.MaxMsgsPerSubject, results.DiscardNewPerSubject = 1, true
	results.MaxAge = ResultsKept
	if results.MaxBytes > 0 {
		results.MaxBytes *= resultsShare
	}

	// No MaxAge: a server that restarts would drop the schedules older than it.
	// No limit either: a stream with schedules cannot refuse (the server says
	// so), and dropping the oldest would drop schedules. Ticks have a TTL, and
	// of those of a schedule that wait for a worker only the newest is kept: an
	// outage is made up for once.
	ticks := base(Ticks, "schedules, their ticks and their last runs", "schedule.*.*", "tick.*.*", "run.*.*")
	ticks.AllowMsgTTL, ticks.AllowMsgSchedules, ticks.MaxMsgsPerSubject = true, true, 1
	ticks.Discard, ticks.MaxBytes = jetstream.DiscardOld, -1

	outbox := base(Outbox, "notifications on their way to a channel", "notify.*")
	outbox.Retention = jetstream.WorkQueuePolicy
	outbox.Duplicates = keysKept

	sessions := base(Sessions, "conversation logs, appended with compare-and-set", "session.*")

	dead := base(Dead, "what was given up on, with the reason; it can be retried", "dead.*.*")
	dead.MaxAge = 30 * 24 * time.Hour
	dead.Discard = jetstream.DiscardOld // a full one must not stop the living

	return []jetstream.StreamConfig{calls, results, ticks, outbox, sessions, dead}
}

// buckets are the streams that the stock clients would make of the buckets.
func (b *Bus) buckets() []jetstream.StreamConfig {
	base := func(name, description string, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Description: description, Subjects: subjects,
			Storage: jetstream.FileStorage, Replicas: max(b.cfg.Replicas, 1),
			Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true,
			MaxBytes: -1, MaxMsgs: -1,
		}
	}
	var all []jetstream.StreamConfig
	for _, bucket := range []string{StateBucket, ArtifactsBucket, TasksBucket} {
		name := b.BucketName(bucket)
		kv := base("KV_"+name, "", "$KV."+name+".>")
		kv.MaxMsgsPerSubject, kv.DenyDelete = 1, true
		kv.AllowMsgTTL, kv.SubjectDeleteMarkerTTL = true, time.Hour
		all = append(all, kv)
	}
	// As the store of artifacts makes it; see there for the limit on messages.
	name := b.BucketName(BlobsBucket)
	blobs := base("OBJ_"+name, "artifacts of Stevedore: bytes by their SHA-256", "$O."+name+".C.>", "$O."+name+".M.>")
	blobs.MaxMsgsPerSubject = 1 << 40
	return append(all, blobs)
}

// defaultMaxBytes bounds a stream where nothing else is said.
const defaultMaxBytes = 1 << 30

func (b *Bus) maxBytes() int64 {
	switch {
	case b.cfg.MaxBytes > 0:
		return b.cfg.MaxBytes
	case b.cfg.DiskSpace > 0: // results get four parts, five streams one each, artifacts the rest
		return min(defaultMaxBytes, max(b.cfg.DiskSpace/16, minMaxBytes))
	}
	return defaultMaxBytes
}

// Consumer describes a durable consumer of one of our streams.
type Consumer struct {
	// Stream is one of the constants above.
	Stream string
	// Name is the durable's name.
	Name string
	// Filter lists the subjects that it takes.
	Filter []string
	// Ordered hands out one message at a time, to all who pull together, and
	// none before the one ahead of it is settled, retries included.
	Ordered bool
}

// WorkerConsumer takes the calls and raw results of a queue; all workers of the
// queue share it.
func (b *Bus) WorkerConsumer(queue string) Consumer {
	return Consumer{Stream: Calls, Name: "worker-" + queue, Filter: []string{b.join("call", queue, ">"), b.join("raw", queue, ">")}}
}

// TickConsumer takes the ticks of all schedules.
func (b *Bus) TickConsumer() Consumer {
	return Consumer{Stream: Ticks, Name: "ticks", Filter: []string{b.join("tick", "*", "*")}}
}

// NotifierConsumer takes all results and completions.
func (b *Bus) NotifierConsumer() Consumer {
	return Consumer{Stream: Results, Name: "notifier", Filter: []string{b.join("result", "*", "*"), b.join("completion", "*", "*")}}
}

// DeadConsumer takes the dead letters whose owners are to be told.
func (b *Bus) DeadConsumer() Consumer {
	return Consumer{Stream: Dead, Name: "notifier-dead", Filter: []string{b.Dead(DeadCall, "*"), b.Dead(DeadTick, "*")}}
}

// ChannelConsumer takes the notifications for one channel.
func (b *Bus) ChannelConsumer(channel string) Consumer {
	return Consumer{Stream: Outbox, Name: "notify-" + channel, Filter: []string{b.Notify(channel)}, Ordered: true}
}

func (b *Bus) consumerConfig(c Consumer) jetstream.ConsumerConfig {
	// Bounded by the slots of those who pull.
	maxAckPending := -1
	if c.Ordered {
		maxAckPending = 1
	}
	return jetstream.ConsumerConfig{
		Durable: c.Name, FilterSubjects: c.Filter,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: b.cfg.Lease,
		// The consuming side counts deliveries and dead-letters: the server
		// would strand what it gives up on.
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
	}
}

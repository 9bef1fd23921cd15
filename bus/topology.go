package bus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Streams, by their name without the prefix.
const (
	Calls    = "CALLS" // calls by session and id, one message per call
	Results  = "RESULTS"
	Ticks    = "TICKS"
	Outbox   = "OUTBOX"
	Sessions = "SESSIONS"
	Dead     = "DEAD"
)

// The versions of the formats of streams that differ from jsapi.Base. A version that changes needs a
// step in bus/admin, see steps.go there.
var (
	OutboxFormat = jsapi.Version{Major: 3, Minor: 1} // its subjects name the chat
	TicksFormat  = jsapi.Version{Major: 3, Minor: 1} // it keeps two messages for each subject
)

// ResultsKept is how long the results stream keeps results.
const ResultsKept = 7 * 24 * time.Hour

// resultsShare is how many times as large as the other streams the results stream may
// be: results stay for days, and workers stop if the stream is full.
const resultsShare = 4

// Buckets, by their name without the prefix.
const (
	StateBucket     = "state"
	ArtifactsBucket = "artifacts"
	TasksBucket     = "tasks"
	BlobsBucket     = "blobs"
)

// StreamName returns the full name of one of the streams above.
func (s Subjects) StreamName(stream string) string {
	return strings.ToUpper(strings.ReplaceAll(s.prefix, ".", "_")) + "_" + stream
}

// BucketName returns the full name of one of the buckets above.
func (s Subjects) BucketName(bucket string) string {
	return strings.ReplaceAll(s.prefix, ".", "_") + "_" + bucket
}

// BucketStream returns the name of the stream of a key-value bucket.
func (s Subjects) BucketStream(bucket string) string { return "KV_" + s.BucketName(bucket) }

const (
	// keysKept is how long the stream of notifications remembers the keys of messages to
	// drop repeated publishes.
	keysKept = 10 * time.Minute
	// deadKeysKept is the same for dead letters: longer than a worker may fail to answer or
	// to remove the message of a letter, which gets a second letter later.
	deadKeysKept = 24 * time.Hour
)

// shortestKeys is the shortest time for which a stream can remember keys. The streams of
// calls need none: each call has an id.
const shortestKeys = 100 * time.Millisecond

// ShortName returns the name of a stream without the prefix in lower case, as
// Config.StreamBytes has it.
func (s Subjects) ShortName(stream string) string {
	return strings.TrimPrefix(strings.ToLower(stream), strings.ToLower(s.StreamName("")))
}

// Streams returns the configurations of the streams.
func (s Subjects) Streams(cfg Config) []jetstream.StreamConfig {
	base := func(name, description string, subjects ...string) jetstream.StreamConfig {
		for i := range subjects {
			subjects[i] = s.join(subjects[i])
		}
		return jetstream.StreamConfig{
			Name: s.StreamName(name), Description: description, Subjects: subjects,
			Storage: jetstream.FileStorage, Replicas: max(cfg.Replicas, 1),
			// A full stream rejects new messages and keeps the accepted ones.
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
			MaxBytes: cfg.maxBytes(), MaxMsgs: -1, MaxMsgsPerSubject: -1,
			AllowDirect: true, Duplicates: 2 * time.Minute,
			AllowAtomicPublish: true, // group commit
			Metadata:           jsapi.Base.Mark(nil),
		}
	}

	// Each subject names one call and holds one message, the first one. So while a call
	// is stored, the server rejects it if it is submitted again, and one read shows
	// whether it is stored. No work queue: it would delete a message, and sync, at each
	// acknowledgement. Workers trim the stream instead (bus/consume/trim.go). It rejects a message with a
	// Nats-TTL, because an accepted call would vanish without a result.
	calls := base(Calls, "calls and raw results that wait for a worker or run", "call.*.*.*.*", "raw.*.*.*.*")
	calls.MaxMsgsPerSubject, calls.DiscardNewPerSubject = 1, true
	calls.Duplicates = shortestKeys
	if cfg.OnDemand {
		calls.Metadata[onDemandKey] = "yes"
	}

	// Each subject holds one message, the first one. So the first result and the first
	// claim win, whatever client library publishes them.
	results := base(Results, "results, completions, claims and reports; the first of each wins", "result.*.*", "completion.*.*", "claim.*.*", "report.*.*")
	results.MaxMsgsPerSubject, results.DiscardNewPerSubject = 1, true
	results.MaxAge = cmp.Or(cfg.ResultsTTL, ResultsKept)
	results.Duplicates = min(results.Duplicates, results.MaxAge) // the server wants this
	// The server repeats each message when it is stored, and never one that the stream
	// rejected. So a subscriber that waits for a result need not read the stream.
	results.RePublish = &jetstream.RePublish{Source: s.join("*.*.*"), Destination: s.prefix + ".stored.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"}
	if results.MaxBytes > 0 {
		results.MaxBytes *= resultsShare
	}

	// No MaxAge: a restarted server would delete the schedules that are older. No size
	// limit: the server does not allow DiscardNew with schedules, and DiscardOld would
	// delete schedules. Ticks have a TTL, and only the newest one of a schedule counts, so
	// there is one after an outage. The limit is two messages, because a message that one on its
	// subject replaces by a limit of 1 comes back after a kill of the server if the second one
	// is removed (nats-server 8505). The server itself removes what a schedule replaces.
	ticks := base(Ticks, "schedules, their ticks and their last runs", "schedule.*.*", "tick.*.*", "run.*.*")
	ticks.AllowMsgTTL, ticks.AllowMsgSchedules, ticks.MaxMsgsPerSubject = true, true, 2
	ticks.Discard, ticks.MaxBytes = jetstream.DiscardOld, -1
	ticks.Metadata = TicksFormat.Mark(nil)

	outbox := base(Outbox, "notifications that wait for a channel", "notify.*", "notify.*.*")
	outbox.Retention = jetstream.WorkQueuePolicy
	outbox.Metadata = OutboxFormat.Mark(nil)
	outbox.Duplicates = keysKept

	sessions := base(Sessions, "conversation logs, appended with compare-and-set", "session.*")

	dead := base(Dead, "dead letters with the reason; they can be retried", "dead.*.*")
	dead.MaxAge, dead.Duplicates = 30*24*time.Hour, deadKeysKept
	dead.Discard = jetstream.DiscardOld // a full stream must not stop other work

	all := []jetstream.StreamConfig{calls, results, ticks, outbox, sessions, dead}
	for i := range all {
		if size := cfg.StreamBytes[s.ShortName(all[i].Name)]; size > 0 {
			all[i].MaxBytes = size
		}
	}
	return all
}

// Buckets returns the configurations of the streams behind the buckets.
func (s Subjects) Buckets(cfg Config) []jetstream.StreamConfig {
	var all []jetstream.StreamConfig
	for _, bucket := range []string{StateBucket, ArtifactsBucket, TasksBucket} {
		name := s.BucketName(bucket)
		all = append(all, jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"},
			Storage: jetstream.FileStorage, Replicas: max(cfg.Replicas, 1),
			Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true,
			MaxBytes: -1, MaxMsgs: -1, MaxMsgsPerSubject: 1, DenyDelete: true,
			AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Hour,
			Metadata: jsapi.Base.Mark(nil),
		})
	}
	blobs := jsapi.ObjectStream(s.BucketName(BlobsBucket), max(cfg.Replicas, 1))
	if cfg.DiskSpace > 0 {
		blobs.MaxBytes = s.blobBytes(cfg)
	}
	return append(all, blobs)
}

// blobBytes is the size of the bucket of blobs on a server with a known DiskSpace: what the streams
// leave, without a sixteenth for the other buckets. A server that stores as much as it may refuses
// everything, also a deletion; a full bucket refuses only blobs.
func (s Subjects) blobBytes(cfg Config) int64 {
	size := cfg.DiskSpace - cfg.DiskSpace/16
	for _, stream := range s.Streams(cfg) {
		size -= max(stream.MaxBytes, 0)
	}
	return max(size, cfg.DiskSpace/4, MinMaxBytes)
}

// All returns the configurations of the streams, and of those behind the buckets.
func (s Subjects) All(cfg Config) []jetstream.StreamConfig {
	return append(s.Streams(cfg), s.Buckets(cfg)...)
}

// StreamOf returns the one of All with a full name.
func (s Subjects) StreamOf(cfg Config, name string) jetstream.StreamConfig {
	all := s.All(cfg)
	return all[slices.IndexFunc(all, func(c jetstream.StreamConfig) bool { return c.Name == name })]
}

// defaultMaxBytes is the default of Config.MaxBytes.
const defaultMaxBytes = 1 << 30

// MinMaxBytes is the smallest useful size of a stream.
const MinMaxBytes = 16 << 20

func (c Config) maxBytes() int64 {
	switch {
	case c.MaxBytes > 0:
		return c.MaxBytes
	case c.DiskSpace > 0: // results get four parts, five streams one each, artifacts the rest
		return min(defaultMaxBytes, max(c.DiskSpace/16, MinMaxBytes))
	}
	return defaultMaxBytes
}

// Consumer describes a durable consumer.
type Consumer struct {
	// Stream is one of the constants above.
	Stream string
	// Name is the durable's name.
	Name string
	// Filter lists the subjects of the consumer.
	Filter []string
	// MaxPending limits the messages that are delivered and not settled, over all
	// processes; 0 means no limit. Lease, if not 0, is a shorter lease than that of the
	// bus. An existing consumer gets both when a process starts to consume.
	MaxPending int
	Lease      time.Duration
	// Trim, if not empty, matches the messages that only this consumer consumes, in a
	// stream that keeps acknowledged messages. consume.Run removes them. It may be no subset of
	// a filter, or the other way round: for such a purge, the server forgets which messages
	// of the consumer were requeued until their leases end.
	Trim string
	// Ranked lets the server prefer processes that consume without consume.Config.Spare. A
	// process of an earlier version, or another program, must name the group to consume.
	Ranked bool
	// Again is set by a process that consumed before: if the consumer does not exist, somebody has deleted it.
	Again bool
}

// RankedGroup is the priority group of ranked consumers. A request for messages names it.
const RankedGroup = "zone"

const (
	// channelPending is the MaxPending of a channel. Notifications that wait for their
	// chat count, so one chat delays the others only if it has more of them.
	channelPending = 10_000
	// channelLease is how long a dead notifier holds the chats of the notifications that
	// it was delivering.
	channelLease = 5 * time.Second
)

// WorkerConsumer consumes the calls and raw results of a queue. All workers of the
// queue share it.
func (s Subjects) WorkerConsumer(queue string) Consumer {
	return Consumer{
		Stream: Calls, Name: "worker-" + queue, Trim: s.join("*", queue, "*", "*", "*"),
		Filter: []string{s.join("call", queue, ">"), s.join("raw", queue, ">")}, Ranked: strings.HasPrefix(queue, zoneQueues),
	}
}

// TickConsumer consumes the ticks of all schedules.
func (s Subjects) TickConsumer() Consumer {
	return Consumer{Stream: Ticks, Name: "ticks", Filter: []string{s.join("tick", "*", "*")}}
}

// NotifierConsumer consumes completions and reports. A notifier that reads all results costs a
// tenth of a short call.
func (s Subjects) NotifierConsumer() Consumer {
	return Consumer{Stream: Results, Name: "notifier", Filter: []string{s.Completion("*", "*"), s.Report("*", "*")}}
}

// DeadConsumer consumes the dead letters that users are notified about.
func (s Subjects) DeadConsumer() Consumer {
	return Consumer{Stream: Dead, Name: "notifier-dead", Filter: []string{s.Dead(DeadCall, "*"), s.Dead(DeadTick, "*")}}
}

// HeartbeatConsumer consumes the results of the heartbeat, for its log. All its processes share it, with one delivery at
// a time, so the lines of the log are in order.
func (s Subjects) HeartbeatConsumer() Consumer {
	return Consumer{Stream: Results, Name: HeartbeatSession, Filter: []string{s.Result(HeartbeatSession, "*"), s.Completion(HeartbeatSession, "*")}, MaxPending: 1}
}

// ChannelConsumer consumes the notifications for one channel.
func (s Subjects) ChannelConsumer(channel string) Consumer {
	return Consumer{Stream: Outbox, Name: "notify-" + channel, Filter: []string{s.NotifyAny(channel), s.Notify(channel, "*")},
		MaxPending: channelPending, Lease: channelLease}
}

func (c Consumer) maxPending() int { return cmp.Or(c.MaxPending, -1) }

func (cfg Config) consumerConfig(c Consumer) jetstream.ConsumerConfig {
	lease := cfg.Lease
	if c.Lease > 0 {
		lease = min(lease, c.Lease)
	}
	config := jetstream.ConsumerConfig{
		Durable: c.Name, FilterSubjects: c.Filter,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: lease,
		// The worker counts deliveries and stores dead letters. After MaxDeliver the
		// server would keep the message and never deliver it again.
		MaxDeliver: -1,
		// Without a MaxPending, the slots of the workers limit the pending messages.
		MaxAckPending: c.maxPending(),
	}
	if c.Again {
		config.Metadata = map[string]string{againKey: "yes"}
	}
	if c.Ranked {
		config.PriorityPolicy, config.PriorityGroups = jetstream.PriorityPolicyPrioritized, []string{RankedGroup}
	}
	return config
}

// streamKinds returns the streams by the first token of their subjects after the prefix.
func streamKinds(s Subjects) map[string]string {
	kinds := map[string]string{}
	for _, config := range s.Streams(Config{}) {
		for _, subject := range config.Subjects {
			kinds[s.Split(subject)[0]] = config.Name[len(s.StreamName("")):]
		}
	}
	return kinds
}

// streamOf returns the stream that captures a subject to which something can be published.
func (b *Bus) streamOf(subject string) (stream string, ok bool) {
	if rest, ours := strings.CutPrefix(subject, b.prefix+"."); ours {
		kind, _, _ := strings.Cut(rest, ".")
		stream, ok = b.kinds[kind]
	}
	return stream, ok
}

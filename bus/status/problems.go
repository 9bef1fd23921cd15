package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Codes of problems, beside the kinds of trouble.
const (
	StreamMissing        = "stream_missing"
	StreamAltered        = "stream_altered"
	StreamSealed         = "stream_sealed"   // or it denies purges or deletions: the server takes neither back
	StreamExpiring       = "stream_expiring" // nor this
	StreamWithoutLeader  = "stream_without_leader"
	ClusterWithoutLeader = "cluster_without_leader"
	StreamNearlyFull     = "stream_nearly_full"
	ReplicaOffline       = "replica_offline"
	WritesRefused        = "writes_refused"
	QueueWithoutWorker   = "queue_without_worker"
	TicksWithoutWorker   = "ticks_without_worker"
	NotificationsWaiting = "notifications_waiting" // for a process that sends them
	NoWorker             = "no_worker"
	StoresDiffer         = "stores_differ"
	ChannelWithoutWorker = "channel_without_worker"
	BridgeSilent         = "bridge_silent"
	BridgeRepeats        = "bridge_repeats"
	RunsWaiting          = "runs_waiting"
	ApprovalWaiting      = "approval_waiting"
	OneLeader            = "one_leader"
	JobFailing           = "job_failing"
	DeadLetters          = "dead_letters"
	ConsumerPaused       = "consumer_paused"
	ConsumerAltered      = "consumer_altered"
	ClockSkew            = "clock_skew"
	RecordDamaged        = "record_damaged"
)

// Problem is something that needs attention.
type Problem struct {
	Code string `json:"code"`
	// Name is that of the stream (without its prefix), server, worker, queue, channel, model or tool, if
	// it is about one. A missing or altered stream has its full name, because it may be that of a bucket; a consumer
	// has that of its stream before its own, and a record that of its bucket. A job has that of its schedule, which differs in each session.
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
	// Since is when it began, if a worker reports it.
	Since time.Time `json:"since,omitzero"`
	// Advice says what to do. Read leaves it empty: the program that shows the problem
	// knows its own commands.
	Advice string `json:"advice,omitempty"`
	// MaxBytes is the size of a stream that is nearly full.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Default is set for a channel that is the default one of a worker: what waits has no other channel to go to.
	Default bool `json:"default,omitempty"`
}

func (p Problem) String() string { return strings.TrimSpace(p.Text + " " + p.Advice) }

// maxFailing is how many jobs whose last run failed are named.
const maxFailing = 5

// problems lists what needs attention.
func (s *Status) problems() []Problem {
	problems := []Problem{}
	add := func(code, name, format string, args ...any) {
		problems = append(problems, Problem{Code: code, Name: name, Text: fmt.Sprintf(format, args...)})
	}
	for _, stream := range s.Streams {
		if altered := stream.fill.Altered; altered != nil {
			code := StreamAltered
			if altered.Permanent != "" {
				code = StreamSealed
			}
			add(code, stream.Name, "The %v.", altered)
		}
		if stream.expires {
			add(StreamExpiring, stream.Name, "Somebody has set allow_msg_ttl on the stream %s: what a client sends with a Nats-TTL is accepted and then vanishes.", stream.Name)
		}
		if stream.Fill >= bus.FillWarning {
			add(StreamNearlyFull, stream.fill.Stream, "The %s.", stream.fill)
			problems[len(problems)-1].MaxBytes = stream.MaxBytes
		}
	}
	if len(s.Streams) == 0 && len(s.missing) > 0 {
		add(StreamMissing, "", "The streams and buckets do not exist.")
	} else {
		for _, name := range s.missing {
			add(StreamMissing, name, "The stream %s does not exist.", name)
		}
	}
	if s.noQuorum {
		add(ClusterWithoutLeader, "", "The cluster or a stream of it has no leader: a server failed just now, or too few of those that store it answer. It accepts nothing.")
	}
	for _, name := range s.headless {
		add(StreamWithoutLeader, name, "The stream %s has no leader: its only server, or half of its servers, do not answer. It accepts nothing.", name)
	}
	streamsNamed := len(problems) > 0
	for _, name := range s.offline {
		add(ReplicaOffline, name, "The server %q of the cluster is offline. The streams lose messages if others are lost too.", name)
	}
	if s.skew.Abs() > maxSkew {
		add(ClockSkew, "", "The server's clock differs by %s from this host's.", s.skew.Round(time.Second))
	}
	problems = append(problems, s.failures(streamsNamed)...)
	for _, name := range slices.Sorted(slices.Values(s.paused)) {
		add(ConsumerPaused, name, "The consumer %s is paused: workers get none of its messages.", name)
	}
	for _, name := range slices.Sorted(slices.Values(s.altered)) {
		add(ConsumerAltered, name, "Somebody has changed the consumer %s: workers do not get all of its messages, or few at once.", name)
	}
	unserved := false
	for _, q := range s.Queues {
		if calls := q.Waiting + uint64(q.Taken); calls > 0 && q.Workers == 0 && q.Pulling == 0 {
			unserved = true
			add(QueueWithoutWorker, q.Name, "No worker serves the queue %q. Calls that wait for one: %d.", q.Name, calls)
		}
	}
	if !unserved && len(s.Workers) == 0 && len(s.Streams) > len(s.headless) && len(s.Errors) == 0 {
		add(NoWorker, "", "No worker answers. Calls wait until one starts.")
	}
	if s.ticks > 0 {
		add(TicksWithoutWorker, "", "No worker takes the ticks of jobs and heartbeats. Ticks that wait: %d.", s.ticks)
	}
	if s.unsent > 0 {
		add(NotificationsWaiting, "", "No worker sends notifications to users. Reports and notifications that wait: %d.", s.unsent)
	}
	stores := map[string]string{} // by id
	for _, w := range s.Workers {
		if w.storeID != "" {
			stores[w.storeID] = w.store + " of " + w.Name
		}
	}
	if len(stores) > 1 {
		add(StoresDiffer, "", "The workers have different artifact stores, so what one stores cannot be read at another: %s.",
			strings.Join(slices.Sorted(maps.Values(stores)), ", "))
	}
	for _, c := range s.Channels {
		waiting := c.Waiting + uint64(c.Sending)
		switch {
		case c.Kind == bridge && c.repeats && c.Served && waiting > 0:
			add(BridgeRepeats, c.Name, "The program of the bridge %q takes notifications and does not acknowledge them, so they come "+
				"to it again and again. Notifications that wait: %d.", c.Name, waiting)
		case waiting == 0 || c.Served || len(s.Errors) > 0:
		case c.Kind == bridge:
			add(BridgeSilent, c.Name, "The program of the bridge %q takes no notifications. Notifications that wait: %d.", c.Name, waiting)
		default:
			add(ChannelWithoutWorker, c.Name, "No process serves the channel %q. Notifications that wait: %d.", c.Name, waiting)
			problems[len(problems)-1].Default = c.Default
		}
	}
	for _, why := range slices.Sorted(maps.Keys(s.outages)) {
		add(RunsWaiting, "", "Runs of agents that wait for their model: %d. %s.", s.outages[why], strings.TrimSuffix(why, "."))
	}
	if s.asking > 0 {
		add(ApprovalWaiting, "", "Calls that wait for an approval: %d.", s.asking)
	}
	for _, name := range s.damaged {
		add(RecordDamaged, name, "The record %s of a call cannot be read. If the call waits without a worker, nobody can answer or cancel it.", name)
	}
	if leader := s.onlyLeader(); leader != "" && len(s.offline) == 0 && !s.noQuorum {
		add(OneLeader, leader, "The server %q leads all streams of the cluster, and does the work of all servers.", leader)
	}
	for i, e := range s.failing {
		if i == maxFailing {
			add(JobFailing, "", "Further jobs whose last run failed: %d.", len(s.failing)-i)
			break
		}
		what := fmt.Sprintf("job %q of the session %q", e.Name, e.Session)
		if e.Kind == bus.Heartbeat {
			what = fmt.Sprintf("heartbeat %q", e.Name)
		}
		add(JobFailing, e.Fields().Schedule, "The last run of the %s failed: %s.", what, strings.TrimSuffix(tools.OneLine(tools.Excerpt(e.LastRun.Message, 200)), "."))
	}
	if s.DeadLetters > 0 {
		add(DeadLetters, "", "Dead letters: %d.", s.DeadLetters)
	}
	return problems
}

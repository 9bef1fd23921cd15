package bus

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// DefaultPrefix is the first token of all subjects and, in upper case, of all
// stream names.
const DefaultPrefix = "stevedore"

// DefaultQueue is the queue of a worker that names none.
const DefaultQueue = "default"

// ZoneQueue returns the queue for the calls of a zone. The server delivers them to workers of
// other zones only while none of this zone asks for calls (consume.Config.Spare).
func ZoneQueue(zone string) string { return zoneQueues + zone }

const zoneQueues = DefaultQueue + "--"

// QueueFor returns the queue to which this process publishes calls for a queue: that of its
// zone instead of DefaultQueue.
func (b *Bus) QueueFor(queue string) string {
	if queue = cmp.Or(queue, DefaultQueue); queue == DefaultQueue && b.cfg.Zone != "" {
		return ZoneQueue(b.cfg.Zone)
	}
	return queue
}

// AgentQueue is the queue of agents. Tools and the sub-agents of each depth have other
// queues, such as "agent-1": agents that take all slots of the queue that they wait for
// would wait for ever.
const AgentQueue = "agent"

// Kinds of schedules.
const (
	Heartbeat = "heartbeat"
	Cron      = "cron"
)

// HeartbeatName is the name of the heartbeat's schedule, and HeartbeatSession the session of its calls.
const (
	HeartbeatName    = "main"
	HeartbeatSession = Heartbeat + "-" + HeartbeatName
)

// Kinds of dead letters. DeadBody is the kind of the messages that store the bodies that do
// not fit into their letters.
const (
	DeadCall         = "call"
	DeadTick         = "tick"
	DeadNotification = "notification"
	DeadResult       = "result"
	DeadBody         = "body"
)

// maxSubjectLen keeps the protocol line of a subject below the limit of the server,
// 4,096 bytes. A longer line closes the connection permanently.
const maxSubjectLen = 1024

// Subjects builds and splits the names with the prefix: subjects, streams, buckets
// and consumers. Its arguments are tokens; convert names of clients with tools.Token
// first. Publish checks the subject again.
type Subjects struct{ prefix string }

// NewSubjects returns the subjects with a prefix of one or more tokens (default:
// DefaultPrefix).
func NewSubjects(prefix string) (Subjects, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := CheckSubject(prefix); err != nil {
		return Subjects{}, fmt.Errorf("prefix: %w", err)
	}
	return Subjects{prefix: prefix}, nil
}

func (s Subjects) join(tokens ...string) string {
	return s.prefix + "." + strings.Join(tokens, ".")
}

// Prefix is the prefix of all subjects.
func (s Subjects) Prefix() string { return s.prefix }

// Call is the subject of one call. It holds one message.
func (s Subjects) Call(queue, tool, session, call string) string {
	return s.join("call", queue, tool, session, call)
}

// Raw is the subject of the result of a tool that a client ran itself. It holds one
// message.
func (s Subjects) Raw(queue, tool, session, call string) string {
	return s.join("raw", queue, tool, session, call)
}

// CallsOf matches the calls and raw results with an id in all queues; "*" means all ids.
func (s Subjects) CallsOf(session, call string) string { return s.join("*", "*", "*", session, call) }

// Result is the subject that stores the result of a call.
func (s Subjects) Result(session, call string) string { return s.join("result", session, call) }

// Completion is the subject that stores the completion of an async call.
func (s Subjects) Completion(session, call string) string { return s.join("completion", session, call) }

// Report is the subject that stores a copy of a result that has a text for a user.
func (s Subjects) Report(session, call string) string { return s.join("report", session, call) }

// ResultsOf matches the results, completions, claims and reports of a session; "*" means all
// sessions.
func (s Subjects) ResultsOf(session string) string { return s.join("*", session, "*") }

// Stored is the subject on which the server repeats a message of the results stream when
// it is stored there. subject is that of Result, Completion or Claim.
func (s Subjects) Stored(subject string) string {
	return s.join("stored", strings.TrimPrefix(subject, s.prefix+"."))
}

// Claim is the subject that stores which worker started a once-only call.
func (s Subjects) Claim(session, call string) string { return s.join("claim", session, call) }

// Cancel is the subject for requests to stop a call.
func (s Subjects) Cancel(session, call string) string { return s.join("cancel", session, call) }

// Progress is the subject for progress events of a running call.
func (s Subjects) Progress(session, call string) string { return s.join("progress", session, call) }

// IsScheduled reports whether a schedule made the call with an Action.
func IsScheduled(action string) bool { return action == Heartbeat || action == Cron }

// Schedule is the subject that stores a schedule of a kind.
func (s Subjects) Schedule(kind, name string) string { return s.join("schedule", kind, name) }

// Tick is the subject for the ticks of a schedule.
func (s Subjects) Tick(kind, name string) string { return s.join("tick", kind, name) }

// RunOf is the subject that stores the last run of a schedule.
func (s Subjects) RunOf(kind, name string) string { return s.join("run", kind, name) }

// Notify is the subject for the notifications of a chat of a channel. An empty chat is a chat
// of its own: no chat has the token "-".
func (s Subjects) Notify(channel, chat string) string {
	return s.join("notify", channel, cmp.Or(chat, "-"))
}

// NotifyAny is the subject for notifications of a channel whose publisher does not know the token
// of their chat. A notifier publishes them again on Notify.
func (s Subjects) NotifyAny(channel string) string { return s.join("notify", channel) }

// Draft is the subject on which a bridge gets the answers of its channel as they grow. No stream
// stores it.
func (s Subjects) Draft(channel string) string { return s.join("draft", channel) }

// Session is the subject of the conversation log of a session.
func (s Subjects) Session(session string) string { return s.join("session", session) }

// Dead is the subject for dead letters.
func (s Subjects) Dead(kind, name string) string { return s.join("dead", kind, name) }

// RPC is a subject for requests; no stream captures it.
func (s Subjects) RPC(tokens ...string) string { return s.join(append([]string{"rpc"}, tokens...)...) }

// Split returns the tokens after the prefix, or nil if the subject does not have the
// prefix.
func (s Subjects) Split(subject string) []string {
	rest, ok := strings.CutPrefix(subject, s.prefix+".")
	if !ok {
		return nil
	}
	return strings.Split(rest, ".")
}

// CallSubject is what the subject of a call or a raw result says.
type CallSubject struct {
	Raw         bool
	Queue, Tool string
	Session, ID string
}

// SplitCall returns what the subject of a call or a raw result says; ok is false if it
// is another subject.
func (s Subjects) SplitCall(subject string) (c CallSubject, ok bool) {
	tokens := s.Split(subject)
	if len(tokens) != 5 || tokens[0] != "call" && tokens[0] != "raw" {
		return CallSubject{}, false
	}
	return CallSubject{Raw: tokens[0] == "raw", Queue: tokens[1], Tool: tokens[2], Session: tokens[3], ID: tokens[4]}, true
}

// CheckSubject returns an error if subject is not valid. The server accepts and stores
// wildcards, control characters and invalid UTF-8 in subjects; this package does not.
func CheckSubject(subject string) error {
	if len(subject) > maxSubjectLen {
		return fmt.Errorf("a subject of %d bytes is longer than %d", len(subject), maxSubjectLen)
	}
	empty := true
	for i := range len(subject) {
		switch c := subject[i]; {
		case c == '.' && empty:
			return fmt.Errorf("subject %q has an empty token", subject)
		case c == '.':
			empty = true
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
			empty = false
		default:
			return fmt.Errorf("subject %q has the character %q; a token is of the form [A-Za-z0-9_-]", subject, c)
		}
	}
	if empty {
		return errors.New("a subject is empty or ends in an empty token")
	}
	return nil
}

// IsInbox reports whether the reply subject of a request is an inbox. The server does not
// check whether a client may publish to the reply subject of its request, so the client
// could make this process publish the answer as a result, a call or a stored value.
func (s Subjects) IsInbox(reply string) bool {
	first, _, _ := strings.Cut(reply, ".")
	if strings.HasPrefix(reply, s.prefix+".") {
		return false
	}
	// _INBOX, _INBOX_alice, inbox, and _R_ of another account.
	return strings.HasPrefix(first, "_") || strings.Contains(strings.ToLower(first), "inbox")
}

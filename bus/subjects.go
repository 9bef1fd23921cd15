package bus

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultPrefix is the first token of all subjects and, in upper case, of all
// stream names.
const DefaultPrefix = "stevedore"

// DefaultQueue is the queue of a worker that names none.
const DefaultQueue = "default"

// maxSubjectLen keeps a subject, with the protocol around it, below the
// server's 4,096-byte control line; going over closes the connection for good.
const maxSubjectLen = 1024

// Subjects builds and takes apart all subjects. Its arguments are tokens; what
// comes from outside goes through tools.Token first. Publishing checks again.
type Subjects struct{ prefix string }

// NewSubjects returns the subjects below a prefix, which is one or more tokens;
// empty means DefaultPrefix.
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

// Prefix is what all subjects start with.
func (s Subjects) Prefix() string { return s.prefix }

// Call is where calls of a tool are published.
func (s Subjects) Call(queue, tool string) string { return s.join("call", queue, tool) }

// Raw is where results are published that somebody else's tool made.
func (s Subjects) Raw(queue, tool string) string { return s.join("raw", queue, tool) }

// Result is where the result of a call stands.
func (s Subjects) Result(session, call string) string { return s.join("result", session, call) }

// Completion is where the later answer of an async call stands.
func (s Subjects) Completion(session, call string) string { return s.join("completion", session, call) }

// Claim is where a worker writes that it starts a once-only call.
func (s Subjects) Claim(session, call string) string { return s.join("claim", session, call) }

// Cancel is where a call is asked to stop.
func (s Subjects) Cancel(session, call string) string { return s.join("cancel", session, call) }

// Progress is where a running call tells how far it is.
func (s Subjects) Progress(session, call string) string { return s.join("progress", session, call) }

// Kinds of schedules.
const (
	Heartbeat = "heartbeat"
	Cron      = "cron"
)

// Schedule is the subject that stores a schedule of a kind.
func (s Subjects) Schedule(kind, name string) string { return s.join("schedule", kind, name) }

// Tick is where the server publishes the firings of a schedule.
func (s Subjects) Tick(kind, name string) string { return s.join("tick", kind, name) }

// RunOf is where it stands which call a schedule made last.
func (s Subjects) RunOf(kind, name string) string { return s.join("run", kind, name) }

// Notify is where the notifications for a channel are published.
func (s Subjects) Notify(channel string) string { return s.join("notify", channel) }

// Session is where the log of a conversation is appended.
func (s Subjects) Session(session string) string { return s.join("session", session) }

// Dead is where a call, tick or notification is kept that was given up on.
func (s Subjects) Dead(kind, name string) string { return s.join("dead", kind, name) }

// RPC is where requests are answered; no stream captures it.
func (s Subjects) RPC(tokens ...string) string { return s.join(append([]string{"rpc"}, tokens...)...) }

// Split returns the tokens behind the prefix, or nil if subject is not one of
// ours.
func (s Subjects) Split(subject string) []string {
	rest, ok := strings.CutPrefix(subject, s.prefix+".")
	if !ok {
		return nil
	}
	return strings.Split(rest, ".")
}

// CheckSubject reports why subject must not be published to. The server accepts
// and stores wildcards, control characters and invalid UTF-8 in subjects; we do
// not.
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

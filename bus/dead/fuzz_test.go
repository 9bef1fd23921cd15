package dead

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
)

// Whatever a client writes into the stream of dead letters, a listing shows it with the kind
// and the name of its subject, reading its message ends, and a retry publishes only to a
// subject of the kind and name that the operator sees.
func FuzzDeadLetter(f *testing.F) {
	subjects, err := bus.NewSubjects("")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"subject":"stevedore.call.default.shell","id":"1","body":"e30="}`, `{"subject":"$JS.API.STREAM.DELETE.x","kind":"call"}`, `{"subject":"stevedore.call.>","gzip":"H4sIAAAAAAAA/w=="}`,
		`{"subject":"stevedore.notify.phone","kind":"notification","name":"other"}`, `{"subject":"stevedore.result.s.1"}`, `{"subject":""}`, `[]`, `{"number":7,"subject":"stevedore.call.q.t.s.1"}`,
	} {
		f.Add("stevedore.dead.call.default", []byte(seed))
		f.Add("stevedore.dead.notification.phone", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		if !strings.HasPrefix(subject, "stevedore.dead.") {
			return // not in the stream
		}
		l, ok := decode(subjects, bus.Stored{Subject: subject, Sequence: 5, Body: body})
		if !ok {
			return
		}
		if got := subjects.Dead(l.Kind, l.Name); l.Number != 5 || got != subject {
			t.Fatalf("the letter %d of %q is shown as one of %q", l.Number, subject, got)
		}
		if _, err := json.Marshal(l); err != nil {
			t.Fatalf("encode %+v: %v", l, err)
		}
		if l.BodySequence == 0 {
			if message, err := l.Message(t.Context(), nil); err == nil && len(message) > 64<<20 {
				t.Errorf("a message of %d bytes", len(message))
			}
		}
		if CheckRetriable(subjects, l) != nil {
			return
		}
		if kind, name := kindOf(subjects, l.Subject); bus.CheckSubject(l.Subject) != nil || subjects.Split(l.Subject) == nil || kind != l.Kind || name != l.Name {
			t.Errorf("a letter of %q may be published to %q", subject, l.Subject)
		}
	})
}

// The name of a dead letter comes from a subject that any client chose.
func TestKindAndName(t *testing.T) {
	s, _ := bus.NewSubjects("")
	for subject, want := range map[string][2]string{
		"stevedore.call.default.echo":  {bus.DeadCall, "echo"},
		"stevedore.raw.default.echo":   {bus.DeadCall, "echo"},
		"stevedore.call.default.a.*":   {bus.DeadCall, "a"},
		"stevedore.call.default.*.s.c": {bus.DeadCall, "unsafe"},
		"stevedore.raw.default.a.s.c":  {bus.DeadCall, "a"},
		"stevedore.call.default.ü":     {bus.DeadCall, "unsafe"},
		"stevedore.tick.cron.daily":    {bus.DeadTick, "daily"},
		"stevedore.notify.console":     {bus.DeadNotification, "console"},
		"stevedore.notify.chat.4711":   {bus.DeadNotification, "chat"},
		"stevedore.completion.s.c":     {bus.DeadResult, "c"},
		"elsewhere":                    {bus.DeadCall, "unknown"},
	} {
		if kind, name := kindOf(s, subject); kind != want[0] || name != want[1] {
			t.Errorf("kindOf(%q) = %s, %s; want %s", subject, kind, name, want)
		}
	}
}

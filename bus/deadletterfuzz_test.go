package bus

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever a client writes into the stream of dead letters, a listing shows it with the kind
// and the name of its subject, reading its message ends, and a retry publishes only to a
// subject of the kind and name that the operator sees.
func FuzzDeadLetter(f *testing.F) {
	subjects, err := NewSubjects("")
	if err != nil {
		f.Fatal(err)
	}
	b := &Bus{Subjects: subjects}
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
		l, ok := b.decodeDeadLetter(subject, 5, body)
		if !ok {
			return
		}
		if got := b.Dead(l.Kind, l.Name); l.Number != 5 || got != subject {
			t.Fatalf("the letter %d of %q is shown as one of %q", l.Number, subject, got)
		}
		if _, err := json.Marshal(l); err != nil {
			t.Fatalf("encode %+v: %v", l, err)
		}
		if l.BodySequence == 0 {
			if message, err := b.DeadMessage(t.Context(), l.DeadLetter); err == nil && len(message) > 64<<20 {
				t.Errorf("a message of %d bytes", len(message))
			}
		}
		if b.CheckRetriable(l) != nil {
			return
		}
		if kind, name := b.deadName(l.Subject); CheckSubject(l.Subject) != nil || b.Split(l.Subject) == nil || kind != l.Kind || name != l.Name {
			t.Errorf("a letter of %q may be published to %q", subject, l.Subject)
		}
	})
}

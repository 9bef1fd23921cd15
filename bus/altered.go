package bus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// AlteredError means that somebody has changed or made a stream, so that it does not store or keep what is
// published.
type AlteredError struct {
	Stream   string   // the full name
	Lacks    []string // subjects
	Settings []string // that refuse, remove or replace messages, or hide them, such as max_age 3s
	Sealed   bool
}

func (e *AlteredError) Error() string {
	switch {
	case e.Sealed:
		return "stream " + e.Stream + " is sealed: it stores nothing any more"
	case len(e.Lacks) == 0:
		return "stream " + e.Stream + " has settings with which messages are refused, removed, replaced or not seen: " + strings.Join(e.Settings, ", ")
	}
	return "stream " + e.Stream + " does not have the subjects " + strings.Join(e.Lacks, ", ") + ": what is published there is not stored"
}

// altered returns what keeps a stream from storing messages, or nil. One that is not of All needs nothing.
func (s Subjects) altered(have jetstream.StreamConfig) *AlteredError {
	e := &AlteredError{Stream: have.Name, Sealed: have.Sealed}
	if have.Sealed {
		return e
	}
	all := s.All(Config{})
	if i := slices.IndexFunc(all, func(want jetstream.StreamConfig) bool { return want.Name == have.Name }); i >= 0 {
		e.Lacks = slices.DeleteFunc(all[i].Subjects, func(subject string) bool {
			return slices.ContainsFunc(have.Subjects, func(filter string) bool { return coversAll(filter, []string{subject}) })
		})
		limit := func(name string, have, want int64, text any) {
			if have > 0 && (want <= 0 || have < want) {
				e.Settings = append(e.Settings, fmt.Sprint(name, " ", text))
			}
		}
		limit("max_msgs", have.MaxMsgs, 0, have.MaxMsgs)
		limit("max_msg_size", int64(have.MaxMsgSize), 0, have.MaxMsgSize)
		limit("max_msgs_per_subject", have.MaxMsgsPerSubject, all[i].MaxMsgsPerSubject, have.MaxMsgsPerSubject)
		if all[i].MaxAge == 0 { // otherwise it is a setting
			limit("max_age", int64(have.MaxAge), 0, have.MaxAge)
		}
		if have.Discard != all[i].Discard && all[i].Discard == jetstream.DiscardNew {
			e.Settings = append(e.Settings, "discard old")
		}
		if first := all[i].DiscardNewPerSubject; first && !have.DiscardNewPerSubject { // a later message replaces the first one
			e.Settings = append(e.Settings, "discard_new_per_subject false")
		} else if first && have.MaxMsgsPerSubject > all[i].MaxMsgsPerSubject { // the stream keeps later ones too
			e.Settings = append(e.Settings, fmt.Sprint("max_msgs_per_subject ", have.MaxMsgsPerSubject))
		}
		if have.RePublish == nil && all[i].RePublish != nil { // a client that waits for a result does not hear of it
			e.Settings = append(e.Settings, "no republish")
		}
	}
	if len(e.Lacks)+len(e.Settings) == 0 {
		return nil
	}
	return e
}

package bus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is a setting of an existing stream or bucket that differs from what this
// version creates.
type Difference struct {
	Name    string `json:"name"`
	Setting string `json:"setting"`
	Have    string `json:"have"`
	Want    string `json:"want"`
	// Harmful means that the stream refuses, removes, replaces, repeats or hides messages because of it.
	Harmful bool `json:"-"`
}

func (d Difference) String() string { return d.Name + ": " + d.change() }

func (d Difference) change() string {
	return fmt.Sprintf("%s is %s, want %s", d.Setting, d.Have, d.Want)
}

// Align copies the settings that guarantees depend on from want to have, and returns
// the differences. The operator decides about all other settings, and about the size of a bucket.
func Align(have *jetstream.StreamConfig, want jetstream.StreamConfig) []Difference {
	d := differences{name: want.Name}
	keys := want.Duplicates
	if have.MaxAge > 0 { // the server allows no longer window
		keys = min(keys, have.MaxAge)
	}
	setting(&d, "subjects", &have.Subjects, want.Subjects, len(lacks(have.Subjects, want.Subjects)) > 0)
	setting(&d, "discard", &have.Discard, want.Discard, want.Discard == jetstream.DiscardNew)
	keepsFirst, fewer := want.DiscardNewPerSubject, have.MaxMsgsPerSubject > 0 && (want.MaxMsgsPerSubject <= 0 || have.MaxMsgsPerSubject < want.MaxMsgsPerSubject)
	setting(&d, "max_msgs_per_subject", &have.MaxMsgsPerSubject, want.MaxMsgsPerSubject, keepsFirst || fewer)
	setting(&d, "max_msgs", &have.MaxMsgs, want.MaxMsgs, true)
	setting(&d, "max_msg_size", &have.MaxMsgSize, -1, true)
	setting(&d, "max_age", &have.MaxAge, want.MaxAge, want.MaxAge == 0) // another age is a choice
	setting(&d, "no_ack", &have.NoAck, false, true)
	setting(&d, "subject_transform", &have.SubjectTransform, nil, true) // it stores messages where nobody looks
	setting(&d, "num_replicas", &have.Replicas, want.Replicas, false)
	setting(&d, "allow_direct", &have.AllowDirect, want.AllowDirect, true) // nobody can read it

	if want.AllowMsgTTL { // the server cannot switch it off
		setting(&d, "allow_msg_ttl", &have.AllowMsgTTL, want.AllowMsgTTL, true)
	}
	if want.AllowRollup { // as only buckets do
		setting(&d, "subject_delete_marker_ttl", &have.SubjectDeleteMarkerTTL, want.SubjectDeleteMarkerTTL, false)
		return d.found
	}
	setting(&d, "retention", &have.Retention, want.Retention, true)
	setting(&d, "discard_new_per_subject", &have.DiscardNewPerSubject, want.DiscardNewPerSubject, keepsFirst)
	setting(&d, "max_bytes", &have.MaxBytes, want.MaxBytes, want.AllowMsgSchedules) // it removes schedules
	setting(&d, "duplicate_window", &have.Duplicates, want.Duplicates, have.Duplicates < keys && !keepsFirst)
	setting(&d, "republish", &have.RePublish, want.RePublish, want.RePublish != nil) // a client that waits for a result does not hear of it
	setting(&d, "allow_atomic", &have.AllowAtomicPublish, want.AllowAtomicPublish, want.AllowAtomicPublish)
	setting(&d, "allow_msg_schedules", &have.AllowMsgSchedules, want.AllowMsgSchedules, want.AllowMsgSchedules)
	return d.found
}

type differences struct {
	name  string
	found []Difference
}

func setting[T any](d *differences, name string, have *T, want T, harmful bool) {
	if h, w := settingText(*have), settingText(want); h != w {
		d.found = append(d.found, Difference{Name: d.name, Setting: name, Have: h, Want: w, Harmful: harmful})
		*have = want
	}
}

func settingText(value any) string {
	return strings.TrimPrefix(strings.ReplaceAll(fmt.Sprint(value), "<nil>", "none"), "&")
}

// lacks returns the wanted subjects that a stream does not store.
func lacks(have, want []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(subject string) bool {
		return slices.ContainsFunc(have, func(filter string) bool { return coversAll(filter, []string{subject}) })
	})
}

// AlteredError means that somebody has changed or made a stream, so that it does not store or keep what is
// published.
type AlteredError struct {
	Stream    string   // the full name
	Lacks     []string // subjects
	Settings  []string // those that are harmful, such as "max_age is 3s, want 0s"
	Permanent string   // what the server does not take back, such as a seal; empty if there is nothing
}

func (e *AlteredError) Error() string {
	switch {
	case e.Permanent != "":
		return "stream " + e.Stream + " " + e.Permanent
	case len(e.Lacks) > 0:
		return "stream " + e.Stream + " does not have the subjects " + strings.Join(e.Lacks, ", ") + ": what is published there is not stored"
	}
	return "stream " + e.Stream + " has settings with which messages are refused, removed, replaced, stored twice or not seen: " + strings.Join(e.Settings, "; ")
}

// altered returns what keeps a stream from storing messages, or nil. One that is not of All needs nothing.
func (s Subjects) altered(have jetstream.StreamConfig) *AlteredError {
	e := &AlteredError{Stream: have.Name}
	all := s.All(Config{})
	if i := slices.IndexFunc(all, func(want jetstream.StreamConfig) bool { return want.Name == have.Name }); i >= 0 {
		if have.Sealed {
			e.Permanent = "is sealed: it stores nothing any more"
		} else if have.DenyPurge || have.DenyDelete && !all[i].DenyDelete {
			e.Permanent = "denies purges or deletions: workers cannot remove what is done"
		}
		e.Lacks = lacks(have.Subjects, all[i].Subjects)
		for _, d := range Align(&have, all[i]) {
			if d.Harmful {
				e.Settings = append(e.Settings, d.change())
			}
		}
	}
	if e.Permanent == "" && len(e.Settings) == 0 {
		return nil
	}
	return e
}

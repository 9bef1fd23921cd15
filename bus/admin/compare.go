package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// Difference is a setting of an existing stream or bucket that differs from what this
// version creates.
type Difference struct {
	Name    string `json:"name"`
	Setting string `json:"setting"`
	Have    string `json:"have"`
	Want    string `json:"want"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s, want %s", d.Name, d.Setting, d.Have, d.Want)
}

// align copies the settings that guarantees depend on from want to have, and returns
// the differences. The operator decides about all other settings, and about the size of a bucket.
func align(have *jetstream.StreamConfig, want jetstream.StreamConfig) []Difference {
	d := differences{name: want.Name}
	setting(&d, "subjects", &have.Subjects, want.Subjects)
	setting(&d, "discard", &have.Discard, want.Discard)
	setting(&d, "max_msgs_per_subject", &have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	setting(&d, "max_msgs", &have.MaxMsgs, want.MaxMsgs)
	setting(&d, "max_msg_size", &have.MaxMsgSize, -1)
	setting(&d, "max_age", &have.MaxAge, want.MaxAge)
	setting(&d, "num_replicas", &have.Replicas, want.Replicas)
	setting(&d, "allow_direct", &have.AllowDirect, want.AllowDirect)
	if want.AllowMsgTTL { // the server cannot switch it off
		setting(&d, "allow_msg_ttl", &have.AllowMsgTTL, want.AllowMsgTTL)
	}
	if want.AllowRollup { // as only buckets do
		setting(&d, "subject_delete_marker_ttl", &have.SubjectDeleteMarkerTTL, want.SubjectDeleteMarkerTTL)
		return d.found
	}
	setting(&d, "retention", &have.Retention, want.Retention)
	setting(&d, "discard_new_per_subject", &have.DiscardNewPerSubject, want.DiscardNewPerSubject)
	setting(&d, "max_bytes", &have.MaxBytes, want.MaxBytes)
	setting(&d, "duplicate_window", &have.Duplicates, want.Duplicates)
	setting(&d, "republish", &have.RePublish, want.RePublish)
	setting(&d, "allow_atomic", &have.AllowAtomicPublish, want.AllowAtomicPublish)
	setting(&d, "allow_msg_schedules", &have.AllowMsgSchedules, want.AllowMsgSchedules)
	return d.found
}

type differences struct {
	name  string
	found []Difference
}

func setting[T any](d *differences, name string, have *T, want T) {
	if h, w := fmt.Sprint(*have), fmt.Sprint(want); h != w {
		d.found = append(d.found, Difference{Name: d.name, Setting: name, Have: h, Want: w})
		*have = want
	}
}

// checkStreamBytes returns an error if Config.StreamBytes names no stream with a size. The
// stream of the schedules has none.
func checkStreamBytes(b *bus.Bus) error {
	var known []string
	for _, stream := range b.Streams(b.Config()) {
		if stream.MaxBytes > 0 {
			known = append(known, b.ShortName(stream.Name))
		}
	}
	for name := range b.Config().StreamBytes {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no stream %q with a size; want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// hasSize reports whether the size of a stream is configured.
func hasSize(b *bus.Bus, stream string) bool {
	return b.Config().MaxBytes > 0 || b.Config().StreamBytes[b.ShortName(stream)] > 0
}

// isBlobs reports whether a stream is that of the blobs. Its size is what the server has left.
func isBlobs(b *bus.Bus, stream string) bool { return stream == "OBJ_"+b.BucketName(bus.BlobsBucket) }

// keepLimits sets those limits in want that are not configured to those of have.
func keepLimits(b *bus.Bus, want *jetstream.StreamConfig, have jetstream.StreamConfig) {
	if b.Config().Replicas <= 0 {
		want.Replicas = have.Replicas
	}
	ofDisk := b.Config().DiskSpace > 0 && isBlobs(b, want.Name) // it changes with the disk
	if !hasSize(b, want.Name) && !ofDisk {
		want.MaxBytes = have.MaxBytes
	}
	if want.Name == b.StreamName(bus.Results) && b.Config().ResultsTTL <= 0 {
		want.MaxAge = have.MaxAge
		if want.MaxAge > 0 { // the server wants this
			want.Duplicates = min(want.Duplicates, want.MaxAge)
		}
	}
}

package jsapi

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// The keys in the metadata of each stream and bucket whose values are the version of its format:
// of its subjects, its messages and its configuration.
const (
	FormatKey = "stevedore.format"
	minorKey  = "stevedore.format_minor" // none means 0
)

// Version is the version of the format of one stream or bucket. A program works with the versions
// of its Major number that are not older than its own, so programs of neighbouring versions work
// side by side where only Minor differs.
type Version struct{ Major, Minor int }

// Base is the version of the streams and buckets whose format has not changed since the first
// format that is moved.
var Base = Version{Major: 3}

func (v Version) String() string {
	if v.Minor == 0 {
		return strconv.Itoa(v.Major)
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// Compare returns -1 if v is older than w, 0 if they are equal, and 1 if v is newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
}

// Mark returns a copy of metadata that contains the version.
func (v Version) Mark(metadata map[string]string) map[string]string {
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[FormatKey] = strconv.Itoa(v.Major)
	delete(metadata, minorKey)
	if v.Minor > 0 {
		metadata[minorKey] = strconv.Itoa(v.Minor)
	}
	return metadata
}

// ReadVersion returns the version in the metadata of a stream. Without one, it is the zero value;
// ok is false if it is damaged.
func ReadVersion(metadata map[string]string) (v Version, ok bool) {
	major, marked := metadata[FormatKey]
	minor, hasMinor := metadata[minorKey]
	if !marked && !hasMinor {
		return v, true
	}
	var majorErr, minorErr error
	v.Major, majorErr = strconv.Atoi(major)
	if hasMinor {
		v.Minor, minorErr = strconv.Atoi(minor)
	}
	return v, majorErr == nil && minorErr == nil && v.Major > 0 && v.Minor >= 0
}

// FormatDifference says that a stream or bucket has a format that this program does not use.
type FormatDifference struct {
	Stream string
	// Has is the version of the stream, or the zero value if it has none or Damaged is not empty.
	Has, Wants Version
	// Damaged is what the stream has in place of a version.
	Damaged string
	// Unused is set if the stream has no version and never had a message.
	Unused bool
}

// has says what the stream has.
func (d FormatDifference) has() string {
	switch {
	case d.Damaged != "":
		return "a damaged version, " + d.Damaged
	case d.Unused:
		return "no version (never used)"
	case d.Has == Version{}:
		return "no version"
	}
	return "version " + d.Has.String()
}

// FormatError means that streams or buckets have a format that this program does not use. It names
// all of them. Nothing was changed.
type FormatError struct{ Differences []FormatDifference }

func (e *FormatError) Error() string {
	var kinds []string
	streams := map[string][]string{}
	for _, d := range e.Differences {
		kind := fmt.Sprintf("%s instead of version %s", d.has(), d.Wants)
		if streams[kind] == nil {
			kinds = append(kinds, kind)
		}
		streams[kind] = append(streams[kind], d.Stream)
	}
	for i, kind := range kinds {
		kinds[i] = strings.Join(streams[kind], ", ") + ": " + kind
	}
	return "the stored format is not that of this program: " + strings.Join(kinds, "; ")
}

// CheckFormat compares the version of a stream with what the program wants. ok is true if the
// program can use it.
func CheckFormat(info *jetstream.StreamInfo, wants Version) (d FormatDifference, ok bool) {
	has, readable := ReadVersion(info.Config.Metadata)
	if readable && has.Major == wants.Major && has.Minor >= wants.Minor {
		return d, true
	}
	d = FormatDifference{Stream: info.Config.Name, Wants: wants}
	switch {
	case !readable:
		d.Damaged = strconv.Quote(info.Config.Metadata[FormatKey])
		if minor, ok := info.Config.Metadata[minorKey]; ok {
			d.Damaged += " with " + strconv.Quote(minor)
		}
	case has == Version{}:
		d.Unused = info.State.LastSeq == 0
	default:
		d.Has = has
	}
	return d, false
}

// ObjectStream is the stream of the object store (ADR-20) for artifacts, with a limit on the messages
// per subject that no object reaches. With such a limit, the server stores messages in
// files of 4 MiB instead of 8 MiB, and to return one message it reads a whole file.
func ObjectStream(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        "OBJ_" + bucket,
		Description: "artifacts of Stevedore: bytes by their SHA-256",
		Subjects:    []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Storage:     jetstream.FileStorage, Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true,
		Replicas: replicas, MaxMsgsPerSubject: 1 << 40, MaxBytes: -1, MaxMsgs: -1,
		Metadata: Base.Mark(nil),
	}
}

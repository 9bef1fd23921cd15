package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Fill is how full a stream is.
type Fill struct {
	Stream   string // the name without the prefix, such as Results
	Name     string // the full name
	Bytes    int64
	MaxBytes int64 // 0 means no limit
	Messages uint64
	Oldest   time.Time // when the oldest message was stored; zero if there is none
	At       time.Time // when the server reported this, by its clock
	// Rejects is set if a full stream rejects new messages. Otherwise the oldest
	// messages go.
	Rejects bool
}

// Ratio is the fill between 0 and 1. It is 0 if the stream has no limit.
func (f Fill) Ratio() float64 {
	if f.MaxBytes <= 0 {
		return 0
	}
	return float64(f.Bytes) / float64(f.MaxBytes)
}

// NearlyFull is the ratio above which a stream that rejects messages may reject the next
// one.
const NearlyFull = 0.95

func (f Fill) String() string {
	return fmt.Sprintf("stream %s is %.0f %% full (%s of %s, %d messages)", f.Name, 100*f.Ratio(), FormatBytes(f.Bytes), FormatBytes(f.MaxBytes), f.Messages)
}

// reason says why a stream fills.
func (f Fill) reason() string {
	switch f.Stream {
	case Results:
		return "workers remove its oldest records, but none of a call in progress, none that the notifier has not read, and none of the last seconds; until then calls wait"
	case Sessions:
		return "workers remove the oldest conversations, but none that was used lately or has work in progress"
	case Outbox:
		return "notifications wait for channels that do not accept them"
	case Dead:
		return "the oldest dead letters are removed"
	}
	return "calls arrive faster than workers finish them"
}

// FullError is an ErrFull that says which stream is full and why.
type FullError struct {
	Fill
	text string
}

// Full returns the error about a stream that is full, or nearly.
func (f Fill) Full() *FullError { return &FullError{f, fmt.Sprintf("%s: %s", f, f.reason())} }

func (e *FullError) Error() string { return e.text }
func (e *FullError) Unwrap() error { return ErrFull }

// MissingError names the streams that do not exist. A bucket has the name of its stream.
type MissingError struct{ Names []string }

func (e *MissingError) Error() string {
	return "streams and buckets that do not exist: " + strings.Join(e.Names, ", ")
}

// Missing returns the names of the streams, and of those of the buckets, that do not exist.
func (s Subjects) Missing(exists func(name string) bool) (missing []string) {
	for _, config := range append(s.Streams(Config{}), s.Buckets(Config{})...) {
		if !exists(config.Name) {
			missing = append(missing, config.Name)
		}
	}
	return missing
}

// ErrNoLeader means that the servers of a cluster that are left cannot elect a leader.
var ErrNoLeader = errors.New("the cluster has no leader, because fewer than half of its servers answer")

// CheckStreams returns a MissingError if a stream or bucket does not exist, and ErrNoLeader if
// the cluster cannot say. A user who may not list them gets nil.
func CheckStreams(ctx context.Context, b *Bus) error {
	have := map[string]bool{}
	err := b.WatchDenial(ctx, b.api.Subject("STREAM.NAMES"), func(ctx context.Context) error {
		names := b.js.StreamNames(ctx)
		for name := range names.Name() {
			have[name] = true
		}
		return names.Err()
	})
	if errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.Code == 503 {
		return ErrNoLeader
	}
	if err != nil {
		return fmt.Errorf("list the streams: %w", err)
	}
	if missing := b.Missing(func(name string) bool { return have[name] }); len(missing) > 0 {
		return &MissingError{missing}
	}
	return nil
}

// FormatBytes returns a number of bytes for people, such as "16 MiB" or "1.5 GiB".
func FormatBytes(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}

// ReadFill returns how full a stream is.
func ReadFill(ctx context.Context, b *Bus, stream string) (Fill, error) {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return Fill{}, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return Fill{}, fmt.Errorf("stream %s: %w", b.StreamName(stream), err)
	}
	f := Fill{
		Stream: stream, Name: info.Config.Name, Bytes: int64(info.State.Bytes), MaxBytes: max(info.Config.MaxBytes, 0),
		Messages: info.State.Msgs, At: info.TimeStamp, Rejects: info.Config.Discard == jetstream.DiscardNew,
	}
	if info.State.Msgs > 0 {
		f.Oldest = info.State.FirstTime
	}
	return f, nil
}

// ReadFills returns how full the streams with a size limit are.
func ReadFills(ctx context.Context, b *Bus) ([]Fill, error) {
	var all []Fill
	for _, config := range b.Streams(b.cfg) {
		if config.MaxBytes <= 0 {
			continue
		}
		f, err := ReadFill(ctx, b, config.Name[len(b.StreamName("")):])
		if err != nil {
			return all, err
		}
		all = append(all, f)
	}
	return all, nil
}

// streamOf returns the stream that captures a subject.
func (s Subjects) streamOf(subject string) (stream string, ok bool) {
	for _, config := range s.Streams(Config{}) {
		for _, filter := range config.Subjects {
			if matches(filter, subject) {
				return config.Name[len(s.StreamName("")):], true
			}
		}
	}
	return "", false
}

// matches reports whether a subject matches a filter with wildcards.
func matches(filter, subject string) bool {
	want, have := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case i >= len(have):
			return false
		case token == ">":
			return true
		case token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

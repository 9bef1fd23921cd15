package bus

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// Altered is nil if the stream stores what is published.
	Altered *AlteredError
	// Format is a *jsapi.FormatError, or nil if programs of this version use the stream.
	Format error

	lost bool // its leader has not heard of enough servers for silentAfter
}

// lookAgain is the pause before the second look at a leader that seems to be alone: one that was
// elected just now has heard nothing yet.
const lookAgain = 500 * time.Millisecond

// Ratio is the fill between 0 and 1. It is 0 if the stream has no limit.
func (f Fill) Ratio() float64 {
	if f.MaxBytes <= 0 {
		return 0
	}
	return float64(f.Bytes) / float64(f.MaxBytes)
}

// FillWarning is the ratio above which somebody should look at a stream.
const FillWarning = 0.8

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
		return "workers remove its oldest records, but none of a call in progress, no completion or report that the notifier has not " +
			"read, and none of the last seconds; until then calls wait"
	case Sessions:
		return "workers remove the oldest conversations, but none that was used lately or has work in progress"
	case Outbox:
		return "notifications wait for channels that do not accept them"
	case Dead:
		return "the oldest dead letters are removed"
	}
	if strings.HasPrefix(f.Stream, "OBJ_") {
		return "results are cut to what fits"
	}
	return "calls wait for workers"
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
	return b.FillOf(info), nil
}

// FillOf returns how full the stream of an info is.
func (s Subjects) FillOf(info *jetstream.StreamInfo) Fill {
	f := Fill{
		Stream: strings.TrimPrefix(info.Config.Name, s.StreamName("")), Name: info.Config.Name, Bytes: int64(info.State.Bytes),
		MaxBytes: max(info.Config.MaxBytes, 0), Messages: info.State.Msgs, At: info.TimeStamp,
		Rejects: info.Config.Discard == jetstream.DiscardNew, lost: HasLostQuorum(info.Cluster), Altered: s.altered(info.Config), Format: s.checkFormat(info),
	}
	if info.State.Msgs > 0 {
		f.Oldest = info.State.FirstTime
	}
	return f
}

// ReadFills returns how full the streams with a size limit are. It skips those of which exists
// says that they do not exist; nil means that the caller does not know. If a stream of a cluster
// does not say it, or its leader is alone, the error is ErrNoLeader.
func ReadFills(ctx context.Context, b *Bus, exists map[string]bool) (all []Fill, err error) {
	err = askLeaders(ctx, b, func(ctx context.Context) error {
		for _, config := range b.Streams(b.cfg) {
			if config.MaxBytes <= 0 || exists != nil && !exists[config.Name] {
				continue
			}
			f, err := ReadFill(ctx, b, config.Name[len(b.StreamName("")):])
			if err != nil {
				return err
			}
			all = append(all, f)
		}
		i := slices.IndexFunc(all, func(f Fill) bool { return f.lost })
		if i < 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
		again, err := ReadFill(ctx, b, all[i].Stream)
		if all[i] = again; err == nil && again.lost {
			err = ErrNoLeader
		}
		return err
	})
	return all, err
}

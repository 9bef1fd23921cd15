package bus

import (
	"context"
	"fmt"
	"slices"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

const (
	// backWindow is how many sequences ScanBack looks at first. It looks at more of
	// them if few have the subject.
	backWindow = 64
	// backMessages and backBytes limit the messages in memory.
	backMessages = 512
	backBytes    = 16 << 20
)

// ScanBack calls f for the messages of a stream on a subject, which may have wildcards,
// newest first, until f returns false. It starts before a sequence, 0 means at the end.
// next is where a later call continues; it is 0 if there are no more messages.
//
// A stream can be read only forward. So ScanBack reads it window by window, each before
// the last one.
func (b *Bus) ScanBack(ctx context.Context, stream, subject string, before uint64, f func(Stored) bool) (next uint64, err error) {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
	}
	first, end := info.State.FirstSeq, info.State.LastSeq+1
	if before > 0 {
		end = min(end, before)
	}
	for width := uint64(backWindow); end > first; {
		low := first
		if end-first > width {
			low = end - width
		}
		window, all, err := b.window(ctx, stream, subject, low, end)
		if err != nil {
			return 0, err
		}
		if !all && width > 1 { // too many for memory
			width = max(width/8, 1)
			continue
		}
		for _, m := range slices.Backward(window) {
			if !f(m) {
				return m.Sequence, nil
			}
		}
		end = low
		if len(window) < backWindow/2 {
			width *= 4
		}
	}
	return 0, nil
}

// window returns the messages with sequences from low to before end, or all false if
// they exceed the limits.
func (b *Bus) window(ctx context.Context, stream, subject string, low, end uint64) (window []Stored, all bool, err error) {
	size := 0
	get := jsapi.Get{NextBySubject: subject, Sequence: low, Batch: int(min(end-low, scanBatch)), MaxBytes: scanBytes}
	for m, err := range b.api.Messages(ctx, b.StreamName(stream), get) {
		if err != nil {
			return nil, false, fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
		}
		if m.Sequence >= end {
			break
		}
		if size += len(m.Data); len(window) >= backMessages || size > backBytes && len(window) > 0 {
			return nil, false, nil
		}
		window = append(window, Stored{Subject: m.Subject, Sequence: m.Sequence, At: m.Time, Body: m.Data, ID: idOf(m.Header, m.Sequence, m.Time)})
	}
	return window, true, nil
}

// ScanFrom calls f for the first count messages of a stream on a subject, from a sequence
// on.
func (b *Bus) ScanFrom(ctx context.Context, stream, subject string, sequence uint64, count int, f func(Stored)) error {
	get := jsapi.Get{NextBySubject: subject, Sequence: sequence, Batch: min(count, scanBatch), MaxBytes: scanBytes}
	for m, err := range b.api.Messages(ctx, b.StreamName(stream), get) {
		if err != nil {
			return fmt.Errorf("scan stream %s: %w", b.StreamName(stream), err)
		}
		f(Stored{Subject: m.Subject, Sequence: m.Sequence, At: m.Time, Body: m.Data, ID: idOf(m.Header, m.Sequence, m.Time)})
		if count--; count <= 0 {
			return nil
		}
	}
	return nil
}

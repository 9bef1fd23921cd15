package bus

import (
	"context"
	"fmt"
)

// Backlog counts the messages of a consumer that wait to be taken, and those
// that were taken, by whichever process, and are not settled.
func (b *Bus) Backlog(ctx context.Context, c Consumer) (waiting, taken uint64, err error) {
	cons, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if err != nil {
		return 0, 0, fmt.Errorf("backlog of %s: %w", c.Name, err)
	}
	info := cons.CachedInfo() // made by the line above
	return info.NumPending, uint64(max(info.NumAckPending, 0)), nil
}

// Count returns how many messages a stream holds.
func (b *Bus) Count(ctx context.Context, stream string) (uint64, error) {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", b.StreamName(stream), err)
	}
	return info.State.Msgs, nil
}

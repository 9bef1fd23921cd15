package bus

import "context"

// DeadLettersBack returns the newest limit dead letters before a number (0: the newest),
// newest first, without their messages. next is where a later call continues; it is 0
// if there are no more.
func (b *Bus) DeadLettersBack(ctx context.Context, before uint64, limit int) (letters []StoredDeadLetter, next uint64, err error) {
	next, err = b.ScanBack(ctx, Dead, b.Dead("*", "*"), before, func(m Stored) bool {
		if letter, ok := b.decodeDeadLetter(m.Subject, m.Sequence, m.Body); ok {
			letter.Body, letter.Gzip = nil, nil
			letters = append(letters, letter)
		}
		return len(letters) < limit
	})
	return letters, next, err
}

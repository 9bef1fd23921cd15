package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Channel is where a user was last heard.
type Channel struct {
	// Name is a channel's, such as "telegram". It has no colon.
	Name string
	// ChatID is the place within the channel, as the channel names it; may be
	// empty.
	ChatID string
	// At is when it was recorded; SetLastChannel ignores it.
	At time.Time
}

// IsZero reports that no channel is known.
func (c Channel) IsZero() bool { return c.Name == "" }

// String is the form that is stored: "telegram:12345", or "console".
func (c Channel) String() string {
	if c.ChatID == "" {
		return c.Name
	}
	return c.Name + ":" + c.ChatID
}

const lastChannelKey = "last_channel"

// SetLastChannel records that session was last heard on channel, and that this
// was the last channel of all; a session's channel is recorded in the same step
// (see Store.Set). session is a safe token; if it is empty, only the last
// channel of all is recorded. It is the PRD's RecordLastChannel, whose
// workspace is the store's.
//
// When the store is full (ErrFull), the sessions that were not heard the longest
// are forgotten.
func SetLastChannel(ctx context.Context, store Store, session string, channel Channel) error {
	if channel.Name == "" || strings.Contains(channel.Name, ":") {
		return fmt.Errorf("set last channel: %q is not the name of a channel", channel.Name)
	}
	values := map[string]string{lastChannelKey: channel.String()}
	if session != "" {
		key, err := channelKey(session)
		if err != nil {
			return fmt.Errorf("set last channel: %w", err)
		}
		values[key] = channel.String()
	}
	err := store.Set(ctx, values)
	if errors.Is(err, ErrFull) {
		if err := forgetOldest(ctx, store); err != nil {
			return fmt.Errorf("set last channel of session %q: %w", session, err)
		}
		err = store.Set(ctx, values)
	}
	if err != nil {
		return fmt.Errorf("set last channel of session %q: %w", session, err)
	}
	return nil
}

// LastChannel returns the channel that session was last heard on, of all
// sessions if session is empty. It never answers with another session's; the
// zero Channel says that none is known.
func LastChannel(ctx context.Context, store Store, session string) (Channel, error) {
	key := lastChannelKey
	if session != "" {
		var err error
		if key, err = channelKey(session); err != nil {
			return Channel{}, fmt.Errorf("last channel: %w", err)
		}
	}
	fact, err := store.Get(ctx, key)
	if err != nil {
		return Channel{}, fmt.Errorf("last channel of session %q: %w", session, err)
	}
	name, chatID, _ := strings.Cut(fact.Value, ":")
	return Channel{Name: name, ChatID: chatID, At: fact.UpdatedAt}, nil
}

func channelKey(session string) (string, error) {
	key := lastChannelKey + "." + session
	if strings.Contains(session, ".") || checkKey(key) != nil {
		return "", fmt.Errorf("session %.80q is not a safe token", session)
	}
	return key, nil
}

// forgetOldest removes a tenth of the sessions' channels, so that a flood of
// sessions cannot keep new ones from being recorded.
func forgetOldest(ctx context.Context, store Store) error {
	facts, err := store.List(ctx, lastChannelKey)
	if err != nil {
		return err
	}
	slices.SortFunc(facts, func(a, b Fact) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	removals := make(map[string]string)
	for _, fact := range facts[:(len(facts)+9)/10] {
		removals[fact.Key] = ""
	}
	return store.Set(ctx, removals)
}

package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Channel is where a user was last active.
type Channel struct {
	// Name is the name of a channel, such as "telegram", without a colon.
	Name string
	// ChatID is the chat within the channel. It may be empty.
	ChatID string
	// At is the time of the record; SetLastChannel ignores it.
	At time.Time
}

// IsZero reports that no channel is known.
func (c Channel) IsZero() bool { return c.Name == "" }

// String is the stored form: "telegram:12345", or "console".
func (c Channel) String() string {
	if c.ChatID == "" {
		return c.Name
	}
	return c.Name + ":" + c.ChatID
}

const lastChannelKey = "last_channel"

// Use is a message that a user sent in a session on a channel.
type Use struct {
	Session string // a token
	Channel Channel
	// OfChat is set if the session is that of the messages that users write in the chat.
	OfChat bool
	// Before, if it is not zero, is when the message was sent: a channel that was recorded
	// since stays.
	Before time.Time
}

// renewAfter is the age of a record that the next use writes again: a full File drops what was written longest ago.
const renewAfter = 24 * time.Hour

// Record records the channel of a use, if that changes the record, or the record is old, and confirm returns true.
//
// A client may name any chat in the body of a call. It cannot take one from the session that
// has it; only the session of the chat can. It replaces what all sessions share, which is the
// last channel of all and the channel without a chat, only if these are its own or nobody's.
func Record(ctx context.Context, store Store, u Use, confirm func() (bool, error)) error {
	ofSession, err := LastChannel(ctx, store, u.Session)
	if err != nil {
		return err
	}
	ofAll, err := LastChannel(ctx, store, "")
	if err != nil {
		return err
	}
	owner, err := LastSession(ctx, store, u.Channel)
	if err != nil || owner != "" && owner != u.Session && !u.OfChat {
		return err
	}
	shared := true
	for _, other := range []Channel{{Name: u.Channel.Name}, ofAll} {
		if u.OfChat || other.IsZero() {
			continue
		}
		owner, err := LastSession(ctx, store, other)
		if err != nil {
			return err
		}
		shared = shared && (owner == "" || owner == u.Session)
	}
	known := ofSession.String() == u.Channel.String() && (!shared || ofAll.String() == u.Channel.String()) && owner == u.Session
	if known && time.Since(ofSession.At) < renewAfter {
		return nil // a read costs less than a write
	}
	if !u.Before.IsZero() && ofSession.At.After(u.Before) {
		return nil
	}
	if ok, err := confirm(); !ok || err != nil {
		return err
	}
	return SetLastChannel(ctx, store, u.Session, u.Channel, shared)
}

// SetLastChannel records the channel as the last one of session, and session as the last
// one of the channel, in one step (see Store.Set). If shared is set, it also records what
// all sessions share. session is a token; if it is empty, only the last channel of all
// sessions is recorded.
func SetLastChannel(ctx context.Context, store Store, session string, channel Channel, shared bool) error {
	key, err := channelKey(session)
	if err != nil {
		return fmt.Errorf("set last channel: %w", err)
	}
	value := channel.String()
	if channel.Name == "" || strings.Contains(channel.Name, ":") {
		return fmt.Errorf("set last channel: %.80q is not a channel", value)
	}
	values := map[string]string{key: value}
	if session != "" {
		values[sessionKey(channel)] = session
	}
	if shared {
		values[lastChannelKey] = value
		if session != "" {
			values[sessionKey(Channel{Name: channel.Name})] = session
		}
	}
	if err := store.Set(ctx, values); err != nil {
		return fmt.Errorf("set last channel of session %q: %w", session, err)
	}
	return nil
}

// LastChannel returns the last channel of session, or of all sessions if session
// is empty. It returns the zero Channel if none is known, never the channel of
// another session.
func LastChannel(ctx context.Context, store Store, session string) (Channel, error) {
	key, err := channelKey(session)
	if err != nil {
		return Channel{}, fmt.Errorf("last channel: %w", err)
	}
	fact, err := store.Get(ctx, key)
	if err != nil {
		return Channel{}, fmt.Errorf("last channel of session %q: %w", session, err)
	}
	name, chatID, _ := strings.Cut(fact.Value, ":")
	return Channel{Name: name, ChatID: chatID, At: fact.UpdatedAt}, nil
}

// LastSession returns the token of the session whose user was last active on a channel, or
// "" if none is known. A channel without a ChatID means any chat of it.
func LastSession(ctx context.Context, store Store, channel Channel) (string, error) {
	fact, err := store.Get(ctx, sessionKey(channel))
	if err != nil {
		return "", fmt.Errorf("last session of channel %q: %w", channel.Name, err)
	}
	return fact.Value, nil
}

// SetReceives records that a process receives what the users of a channel write.
func SetReceives(ctx context.Context, store Store, channel string) error {
	if err := store.Set(ctx, map[string]string{receivesKey + channel: "true"}); err != nil {
		return fmt.Errorf("record that channel %q receives: %w", channel, err)
	}
	return nil
}

// Receives reports whether a process has received, or receives, what the users of a channel write.
func Receives(ctx context.Context, store Store, channel string) (bool, error) {
	fact, err := store.Get(ctx, receivesKey+channel)
	if err != nil {
		return false, fmt.Errorf("does channel %q receive: %w", channel, err)
	}
	return fact.Value != "", nil
}

const receivesKey = "receives."

// sessionKey is the key of a channel's last session. Chat ids may have any form, so it has
// a hash.
func sessionKey(channel Channel) string {
	sum := sha256.Sum256([]byte(channel.String()))
	return "last_session." + hex.EncodeToString(sum[:16])
}

func channelKey(session string) (string, error) {
	if session == "" {
		return lastChannelKey, nil
	}
	key := lastChannelKey + "." + session
	if strings.Contains(session, ".") || checkKey(key) != nil {
		return "", fmt.Errorf("session %.80q is not a safe token", session)
	}
	return key, nil
}

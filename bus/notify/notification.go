package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus"
)

// Notification is one message for one channel, on its way there; it is the body
// of the events on stevedore.notify.<channel>. Whoever publishes one needs to
// set Text only.
type Notification struct {
	// ID is the same for every attempt to deliver this notification, and no
	// other one has it: the key for receivers that drop duplicates.
	ID string `json:"id,omitempty"`
	// Kind says what it tells of: result, completion, message or dead letter.
	Kind string `json:"kind,omitempty"`
	// Channel is a token; ChatID is the place within it, as the channel names
	// it, empty for the channel's own default.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`
	// Session, Call and Tool are where it comes from, in the words of the
	// client: any text.
	Session string `json:"session,omitempty"`
	Call    string `json:"call,omitempty"`
	Tool    string `json:"tool,omitempty"`
	// Text is for the user, from anybody: channels make it harmless for where
	// it is shown.
	Text string `json:"text"`
	// Format is FormatMarkdown if the text is written in it; channels show it
	// as well as they can. Otherwise they show the text as it is.
	Format string `json:"format,omitempty"`
	// IsError marks the news of a failure.
	IsError bool `json:"is_error,omitempty"`
	// Note is a word of ours about where it comes from or how it got here, not
	// part of the text.
	Note string    `json:"note,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

// noted returns n with one more word of ours.
func (n Notification) noted(word string) Notification {
	if n.Note != "" {
		word = n.Note + "; " + word
	}
	n.Note = word
	return n
}

// Kinds of notifications.
const (
	KindResult     = "result"
	KindCompletion = "completion"
	KindMessage    = "message"
	KindDead       = "dead"
)

// FormatMarkdown is CommonMark, with GitHub's tables, strikethrough and task
// lists.
const FormatMarkdown = "markdown"

// Channel delivers notifications to where a user reads. Send returns once the
// other side has accepted the notification. Its error is a verdict, as for a
// bus.Handler: bus.Reject for what will not heal, bus.RetryAfter where the other
// side names a time, any other error to try again with growing pauses. The error
// names no secret. Send is called for one notification at a time.
type Channel interface {
	Send(ctx context.Context, n Notification) error
}

// decode reads a notification as it came from the outbox.
func decode(channel string, d *bus.Delivery) (Notification, error) {
	var n Notification
	if !utf8.Valid(d.Body) {
		return n, errors.New("decode notification: the body is not valid UTF-8")
	}
	if err := json.Unmarshal(d.Body, &n); err != nil {
		return n, fmt.Errorf("decode notification: %w", err)
	}
	if strings.TrimSpace(n.Text) == "" {
		return n, errors.New("decode notification: it has no text")
	}
	n.Channel = channel
	if n.ID == "" {
		n.ID = d.ID()
	}
	if n.Kind == "" {
		n.Kind = KindMessage
	}
	if n.At.IsZero() {
		n.At = d.Published.UTC()
	}
	return n, nil
}

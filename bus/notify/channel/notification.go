package channel

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"
)

// Notification is one message for one channel. It is the body of the events on
// stevedore.notify.<channel>. A client that publishes one needs to set only Text.
type Notification struct {
	// ID is unique to this notification and the same for every attempt to
	// deliver it. Receivers use it to drop duplicates.
	ID string `json:"id,omitempty"`
	// Kind is the source: result, completion, message or dead letter.
	Kind string `json:"kind,omitempty"`
	// Channel is a token. ChatID is the destination within the channel, in the
	// channel's own form; empty means the channel's default.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`
	// Session, Call and Tool are the source, as the client named them: any text.
	Session string `json:"session,omitempty"`
	Call    string `json:"call,omitempty"`
	Tool    string `json:"tool,omitempty"`
	// Text is for the user. Its author is not trusted, so each channel escapes
	// it for the place that shows it.
	Text string `json:"text"`
	// Format is FormatMarkdown if the text is Markdown; channels show it as well
	// as they can. Otherwise, they show the text unchanged.
	Format string `json:"format,omitempty"`
	// IsError marks a failure.
	IsError bool `json:"is_error,omitempty"`
	// Note is a remark of the notifier about the source or the delivery. It is
	// not part of the text.
	Note string `json:"note,omitempty"`
	// Approval is set if the text asks whether a call may run.
	Approval *Approval `json:"approval,omitempty"`
	// Artifact is the artifact that the user gets as a file with the text.
	Artifact *Artifact `json:"artifact,omitempty"`
	At       time.Time `json:"at,omitzero"`
	// File is the Artifact. It is nil in events: the notifier sets it when it delivers to a
	// FileChannel. It is valid until Send returns.
	File *Document `json:"-"`
	// Replaces is the id of a message in the chat that shows a draft of the text. It is
	// empty in events: the notifier sets it when it delivers to a DraftChannel.
	Replaces string `json:"-"`
}

// WithNote returns n with one more remark.
func (n Notification) WithNote(note string) Notification {
	if n.Note != "" {
		note = n.Note + "; " + note
	}
	n.Note = note
	return n
}

// Digest identifies what a user reads. The ID does not: a client may use it again for another text.
func (n Notification) Digest() [sha256.Size]byte {
	read, _ := json.Marshal([]any{n.ID, n.ChatID, n.Text, n.IsError, n.Approval}) // cannot fail
	return sha256.Sum256(read)
}

// Approval is the question of a notification that asks whether a call may run. A channel
// with buttons can show one for yes and one for no; their answer goes to
// approvals.Answer. The text of the notification asks the same.
type Approval struct {
	// Session and ID are the tokens of the call.
	Session string `json:"session"`
	ID      string `json:"id"`
	Tool    string `json:"tool"`
	// Args are the arguments as a text, or their start.
	Args string `json:"args,omitempty"`
	// Deadline is the time after which the answer is no.
	Deadline time.Time `json:"deadline"`
}

// Artifact names an artifact of the session of a notification, or of its sub-agents.
type Artifact struct {
	ID string `json:"artifact_id"`
	// Digest is that of the artifact. Who may not read an artifact does not know it, and
	// cannot have it sent.
	Digest string `json:"digest"`
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

// Channel delivers notifications to a user. Send returns after the receiver has
// accepted the notification. Its error decides what happens next, as for a
// consume.Handler: consume.Reject if a retry cannot succeed, consume.RetryAfter if the
// receiver names a time, any other error to retry with growing pauses. The error
// contains no secret. Send is called for one notification of a chat at a time, and for
// several chats at once.
type Channel interface {
	Send(ctx context.Context, n Notification) error
}

// Slots is how many notifications of a channel a process sends at once.
const Slots = 512

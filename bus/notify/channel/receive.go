package channel

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Incoming is a message of a user.
type Incoming struct {
	// ID names the message within its chat. A message that is delivered again has the
	// same one.
	ID string
	// ChatID is an allowed chat, in the channel's own form.
	ChatID string
	// Text is what the user wrote. It may be empty if there is a Context.
	Text string
	// From names the user, in chats with several.
	From string
	// Context is a text for the agent about the message, such as the message that it
	// replies to.
	Context string
	// Files came with the message.
	Files []Attachment
	// Voice is the recording of a voice message, or nil.
	Voice *Attachment
}

// Attachment is a file of a user.
type Attachment struct {
	Name string
	// Open begins to read the file. An error of consume.Rejected is final.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// maxAttached is the largest file that Read returns, in bytes.
const maxAttached = 20 << 20

// Read returns the content of the file. An error of consume.Rejected is final.
func (a Attachment) Read(ctx context.Context) ([]byte, error) {
	content, err := a.Open(ctx)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(content, maxAttached+1))
	switch err := errors.Join(err, content.Close()); {
	case err != nil:
		return nil, fmt.Errorf("read the file %q: %w", a.Name, err)
	case len(data) > maxAttached:
		return nil, consume.Reject("too_large", fmt.Errorf("it has more than %d MB", maxAttached>>20))
	}
	return data, nil
}

// Prompt returns the message for the agent, with a text instead of the Text.
func (m Incoming) Prompt(text string) string {
	if m.From != "" && text != "" {
		text = tools.Excerpt(tools.OneLine(m.From), maxFrom) + ": " + text
	}
	return strings.TrimSpace(m.Context + "\n\n" + text)
}

// maxFrom is how much of the name of a user the agent sees, in bytes.
const maxFrom = 64

// quoted returns the start of the message that a user replies to, as a quote.
func quoted(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "> " + strings.ReplaceAll(tools.Excerpt(text, maxQuoted), "\n", "\n> ")
}

// maxQuoted is how much of the message that a user replies to the agent sees, in bytes.
const maxQuoted = 1000

// Decision is a user's answer to an approval, by a button or a message.
type Decision struct {
	// Key is that of ApprovalKey.
	Key     string
	ChatID  string
	Approve bool
	// Reason is for the agent.
	Reason string
	// By names the user.
	By string
}

// Inbox takes what users send. It is safe for concurrent use.
type Inbox interface {
	// Accept returns when the message is durable. Accepting a message again has no
	// effect. A *tools.Error means that the message can never be accepted; the receiver
	// tries again after any other error.
	Accept(ctx context.Context, message Incoming) (Accepted, error)
	// Decide answers an approval, and returns a text for the user.
	Decide(ctx context.Context, decision Decision) (text string, err error)
	// Name is that of the channel.
	Name() string
}

// Receiving is a Channel with chats whose users may write. Who receives their messages asks it.
type Receiving interface {
	Channel
	// CheckChat returns an error if the channel does not send to a chat.
	CheckChat(chat string) error
	// ListsChats reports whether the operator listed the chats.
	ListsChats() bool
	// MayReceive reports whether the messages of a chat are accepted, and returns the chat as the
	// settings of the channel name it.
	MayReceive(chat string) (string, bool)
	// Chats lists the chats whose users may write.
	Chats() []string
	// DefaultChat returns the chat of notifications that name none; it may be empty.
	DefaultChat() string
	// SendsToAll reports whether a notification that names no chat goes to all of them.
	SendsToAll() bool
	// Room returns the chat that has a thread, or the chat itself.
	Room(chat string) string
}

// reception is one Receive: where the messages go, and what it logs.
type reception struct {
	Inbox
	log zerolog.Logger
	// strangers are the chats that are not allowed, and when a message of each was logged.
	strangers map[string]time.Time
}

func newReception(inbox Inbox, log zerolog.Logger) *reception {
	return &reception{inbox, log, map[string]time.Time{}}
}

// accept passes a message on, and logs it if it can never be accepted. After an error, the
// message must be passed on again.
func (r *reception) accept(ctx context.Context, message Incoming) error {
	_, err := r.Accept(ctx, message)
	if _, final := errors.AsType[*tools.Error](err); final {
		r.log.Warn().Err(err).Str("chat", message.ChatID).Str("message", tools.Excerpt(message.ID, 80)).Msg("rejected a message")
		return nil
	}
	return err
}

// ignore logs a message of a chat that is not allowed, one per chat and minute.
func (r *reception) ignore(chat, kind string) {
	now := time.Now()
	if len(r.strangers) > 1000 {
		clear(r.strangers)
	}
	if now.Sub(r.strangers[chat]) < time.Minute {
		return
	}
	r.strangers[chat] = now
	r.log.Warn().Str("chat", tools.Excerpt(chat, 80)).Str("type", tools.Excerpt(kind, 20)).Msg("ignored a message of a chat that is " +
		"not allowed; to accept it, add the chat to the setting allow of the channel")
}

// refusedPause is the pause after a platform has refused to let the program receive.
const refusedPause = 5 * time.Minute

// again calls receive until ctx ends, with a pause after each error. The pauses grow until
// receive calls healthy.
func (r *reception) again(ctx context.Context, receive func(ctx context.Context, healthy func()) error) error {
	pauses := retry.Pauses(time.Second, time.Minute, 0)
	for ctx.Err() == nil {
		err := receive(ctx, func() {
			pauses.Reset()
			trouble.Report(ctx, trouble.Receiver, r.Name(), nil)
		})
		if err == nil || ctx.Err() != nil {
			continue
		}
		pause := pauses.NextBackOff()
		if wait, ok := consume.Postponed(err); ok && wait > 0 {
			pause = wait
		} else if _, refused := consume.Rejected(err); refused {
			pause = refusedPause
		}
		trouble.Report(ctx, trouble.Receiver, r.Name(), err)
		r.log.Warn().Err(err).Stringer("pause", pause.Round(time.Millisecond)).Msg("cannot receive messages; trying again")
		_ = tools.Sleep(ctx, pause)
	}
	return nil
}

// Accepted is the call that a message became. It is empty if the inbox itself answered
// the message.
type Accepted struct {
	ID      string `json:"id,omitempty"`
	Session string `json:"session,omitempty"`
}

// Draft is what a run has of its answer so far. If it is empty, the run has only begun.
type Draft struct {
	Text   string // Markdown
	Status string // what the agent does, in one line
}

// DraftChannel is a Channel that can show a message which grows. Its Send edits the message
// that a notification Replaces.
type DraftChannel interface {
	Channel
	// ShowDraft edits the message id; if that is empty, it sends a new message and
	// returns its id.
	ShowDraft(ctx context.Context, chat, id string, draft Draft) (string, error)
	RemoveDraft(ctx context.Context, chat, id string) error
}

// notification returns the draft in the form of the final text.
func (d Draft) notification() Notification {
	if strings.TrimSpace(d.Text) == "" {
		return Notification{Text: d.Status}
	}
	return Notification{Text: d.Text, Format: FormatMarkdown, Note: d.Status}
}

// ApprovalKey names an approval in the data of a button, which some channels limit to 64
// bytes. Only users who got the button know it.
func ApprovalKey(session, id string) string {
	digest := sha256.Sum256([]byte(session + "\x00" + id))
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(digest[:20])
}

package channel

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
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
}

// Attachment is a file of a user.
type Attachment struct {
	Name string
	// Open begins to read the file. An error of bus.Rejected is final.
	Open func(ctx context.Context) (io.ReadCloser, error)
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
}

// Accepted is the call that a message became. It is empty if the inbox itself answered
// the message.
type Accepted struct {
	ID      string `json:"id,omitempty"`
	Session string `json:"session,omitempty"`
}

// StatusChannel is a Channel that can show that a call is running, and remove that again.
type StatusChannel interface {
	// ShowStatus shows a text in a chat. It changes the message id; if that is empty, it
	// sends a new message and returns its id.
	ShowStatus(ctx context.Context, chat, id, text string) (string, error)
	RemoveStatus(ctx context.Context, chat, id string) error
}

// ApprovalKey names an approval in the data of a button, which some channels limit to 64
// bytes. Only users who got the button know it.
func ApprovalKey(session, id string) string {
	digest := sha256.Sum256([]byte(session + "\x00" + id))
	return base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(digest[:20])
}

// chatList lists the chats that a channel sends to and receives from.
type chatList []string

// anyChat in a chatList allows all chats, to send only.
const anyChat = "*"

// parseChats reads the setting allow, and adds the default chat.
func parseChats(allow, chat string) chatList {
	list := chatList(strings.FieldsFunc(allow, func(r rune) bool { return r == ';' || r == ' ' }))
	if chat != "" && !slices.Contains(list, chat) {
		list = append(list, chat)
	}
	return list
}

// mayReceive reports whether messages of a chat are accepted.
func (l chatList) mayReceive(chat string) bool {
	return chat != "" && chat != anyChat && slices.Contains(l, chat)
}

// maySend reports whether messages may be sent to a chat.
func (l chatList) maySend(chat string) bool {
	return slices.Contains(l, chat) || slices.Contains(l, anyChat)
}

// named returns the list without anyChat.
func (l chatList) named() chatList {
	return slices.DeleteFunc(slices.Clone(l), func(chat string) bool { return chat == anyChat })
}

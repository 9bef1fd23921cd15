package builtin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Sender sends messages to users.
type Sender interface {
	// Send returns when the message is stored durably. where describes the
	// destination for people. Send drops a message with a known key without an
	// error.
	Send(ctx context.Context, m Message) (where string, err error)
}

// Message is a message to a user.
type Message struct {
	// Key identifies the message; it is the same for every attempt to send it.
	Key string
	// Session and Call are the client's ids of the sending call.
	Session, Call string
	// Channel and ChatID are the destination. An empty channel means the last channel
	// of the session's user.
	Channel, ChatID string
	// OtherChat means that the message names a chat that is not that of the call.
	OtherChat bool
	Text      string
	// Artifact is the id of an artifact of the session or of its sub-agents that the user gets
	// as a file, or "".
	Artifact string
}

type messageArgs struct {
	Content  string `json:"content" jsonschema:"the text to send, plain or Markdown"`
	Channel  string `json:"channel,omitempty" jsonschema:"the channel to send it to; default the channel of this conversation"`
	Artifact string `json:"artifact,omitempty" jsonschema:"the id of an artifact to send as a file after the text"`
	ChatID   string `json:"chat_id,omitempty" jsonschema:"the chat or user within the channel; default as for channel"`
}

// NewMessage returns the message tool. The user receives the message, but not the
// result of the call.
func NewMessage(sender Sender) tools.Tool {
	return tools.MustTool("message",
		"Send a message to the user immediately, while other work continues, or to another chat; with a file, if artifact names one.",
		func(ctx context.Context, call tools.Call, args messageArgs) *tools.Result {
			return sendMessage(ctx, sender, call, args)
		}).WithEffect(tools.Keyed)
}

func sendMessage(ctx context.Context, sender Sender, call tools.Call, args messageArgs) *tools.Result {
	m := Message{Session: call.Session, Call: call.ID, Channel: cmp.Or(args.Channel, call.Channel), ChatID: args.ChatID,
		Text: args.Content, Artifact: args.Artifact}
	if m.ChatID == "" && m.Channel == call.Channel {
		m.ChatID = call.ChatID
	}
	m.OtherChat = m.ChatID != "" && (m.Channel != call.Channel || m.ChatID != call.ChatID)
	switch {
	case strings.TrimSpace(m.Text) == "":
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "content is empty"))
	case m.Channel == "" && m.ChatID != "":
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "chat_id needs a channel; set that too"))
	case len(m.Channel) > tools.MaxIDLen, len(m.ChatID) > tools.MaxIDLen: // as in a call
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "channel and chat_id are too long"))
	}
	// The key contains the requested channel, because the user's last channel may have
	// changed when the call runs again.
	m.Key = messageKey(call.SessionToken(), call.ID, call.AgentID, m.Channel, m.ChatID, m.Text, m.Artifact)
	where, err := sender.Send(ctx, m)
	if err != nil {
		if ctx.Err() != nil {
			return tools.Failure(ended(ctx))
		}
		return tools.Failure(fmt.Errorf("failed to send the message: %w", err))
	}
	return tools.SilentResult("Message sent to " + where)
}

// messageKey hashes parts so that different lists have different keys.
func messageKey(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_ = binary.Write(h, binary.BigEndian, int64(len(part))) // a hash never fails
		h.Write([]byte(part))
	}
	return "message-" + hex.EncodeToString(h.Sum(nil)[:16])
}

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/tools"
)

// Bridge is a channel whose other end is a program in any language. The program consumes the
// durable consumer of the channel itself, so the notifier delivers nothing. It hands in what users
// write, and asks what it needs, by requests (see docs/agents.md).
//
// The chat of a thread is CHAT/THREAD. It is allowed if CHAT is.
type Bridge struct {
	chats
	shape shape
}

// plain is the shape of the texts of a network without markup.
var plain = shape{limit: 4000, measure: markup.InRunes}

// NewBridge returns the channel. style is the markup of its texts: that of "slack", "discord" or
// "mattermost"; by default none.
func NewBridge(chat, allow, style string) (*Bridge, error) {
	styles := map[string]shape{"": plain, "slack": shapes["slack"], "discord": shapes["discord"], "mattermost": shapes["mattermost"]}
	s, ok := styles[style]
	if !ok {
		return nil, fmt.Errorf("bridge: style: want one of %s", strings.Join(slices.Sorted(maps.Keys(styles))[1:], ", "))
	}
	return &Bridge{chats{kind: "bridge", chat: chat, allow: parseChats(allow, chat), threads: true}, s}, nil
}

// Send implements Channel. It is for tests of a channel by hand.
func (b *Bridge) Send(context.Context, Notification) error {
	return consume.Reject("bridged", errors.New("the program at the other end of a bridge takes its notifications from the outbox"))
}

// Prepared is what a bridge shows of a notification.
type Prepared struct {
	ChatID string `json:"chat_id,omitempty"`
	// Parts are messages in the markup of the network, none of which is too long for it.
	Parts []string `json:"parts,omitempty"`
	// Markup says that the parts have markup. Otherwise, they are escaped for a network that
	// reads any text as markup.
	Markup bool `json:"markup,omitempty"`
	// Approval is the key of the question that the last part asks. Its answer is a Decision.
	Approval string `json:"approval,omitempty"`
	// File is sent after the parts.
	File *PreparedFile `json:"file,omitempty"`
}

// PreparedFile describes a file of a notification.
type PreparedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Command is the one with which the user gets a file that the network does not take.
	Command string `json:"command"`
}

// Prepare returns what the bridge shows of a notification. Its error is a rejection.
func (b *Bridge) Prepare(n Notification) (Prepared, error) {
	chat, err := b.destination(n)
	if err != nil {
		return Prepared{}, err
	}
	parts, isMarkup := b.shape.messages(n)
	p := Prepared{ChatID: chat, Markup: isMarkup}
	for _, part := range parts {
		p.Parts = append(p.Parts, part.Text)
	}
	if n.Approval != nil {
		p.Approval = ApprovalKey(n.Approval.Session, n.Approval.ID)
	}
	if n.File != nil {
		p.File = &PreparedFile{n.File.Name, n.File.Size, n.File.Command}
	}
	return p, nil
}

// BridgeDraft is what a run has of its answer so far. No stream stores it. An empty Text means
// that the run has only begun, Done that the draft is to be removed: its answer is somewhere else.
type BridgeDraft struct {
	Session string `json:"session"`
	Call    string `json:"call"`
	ChatID  string `json:"chat_id"`
	Text    string `json:"text,omitempty"` // in the markup of the network
	Markup  bool   `json:"markup,omitempty"`
	// Status is the tool that runs. The Text ends with it.
	Status string `json:"status,omitempty"`
	Done   bool   `json:"done,omitempty"`
}

// Draft returns the draft of a call as the bridge shows it.
func (b *Bridge) Draft(session, call, chat string, draft Draft) BridgeDraft {
	shown := BridgeDraft{Session: session, Call: call, ChatID: chat, Status: draft.Status}
	if draft == (Draft{}) {
		return shown
	}
	parts, isMarkup := b.shape.messages(draft.notification())
	shown.Text, shown.Markup = parts[0].Text, isMarkup
	return shown
}

// MaxFile implements FileChannel: the bridge decides which files it sends.
func (b *Bridge) MaxFile() int64 { return 1 << 30 }

// BridgeRequest is a request of a bridge. It has the fields of one kind of request; one without
// fields asks which chats the channel has.
type BridgeRequest struct {
	// A message of a user. ID names it within its chat; a message that is handed in again has no
	// effect.
	ID     string `json:"id,omitempty"`
	ChatID string `json:"chat_id,omitempty"`
	User   string `json:"user,omitempty"` // who wrote it, for records
	// From names the user to the agent, in chats with several.
	From    string       `json:"from,omitempty"`
	Text    string       `json:"text,omitempty"`
	Context string       `json:"context,omitempty"` // a text for the agent, such as what the message replies to
	Files   []BridgeFile `json:"files,omitempty"`
	Voice   *BridgeFile  `json:"voice,omitempty"`
	// Position is how far the chat was read, in the bridge's own form. It is stored with a
	// message, or alone.
	Position string `json:"position,omitempty"`

	// Receiving says why the bridge gets nothing from its network now, Sending why it can send nothing there; empty
	// means that it works.
	Receiving *string `json:"receiving,omitempty"`
	Sending   *string `json:"sending,omitempty"`
	// Unanswered is the ID of a message: has its run ended without a text for the user?
	Unanswered string `json:"unanswered,omitempty"`
	// Decide answers an approval.
	Decide *BridgeDecision `json:"decide,omitempty"`
	// Prepare is a notification of the outbox; the answer is a Prepared. File asks for a piece of
	// its file from Offset on. Subject is that of the notification; it says which chat a body may
	// name, and which one is meant by a body without a chat.
	Subject string          `json:"subject,omitempty"`
	Prepare json.RawMessage `json:"prepare,omitempty"`
	File    json.RawMessage `json:"file,omitempty"`
	Offset  int64           `json:"offset,omitempty"`
	// Reject makes a notification a dead letter.
	Reject *BridgeRejection `json:"reject,omitempty"`
}

// BridgeAnswer is the answer to a BridgeRequest, with the fields of its kind.
type BridgeAnswer struct {
	*Accepted        // the call that a message became; none if the inbox answered it
	Text      string `json:"text,omitempty"` // for the user who decided
	Chat      string `json:"chat,omitempty"` // of notifications that name none
	// Chats are those whose users may write, with how far each was read.
	Chats map[string]string `json:"chats,omitempty"`
	*Prepared
	Data    []byte        `json:"data,omitempty"`    // a piece of a file, in base64
	Outcome tools.Outcome `json:"outcome,omitempty"` // of an Unanswered message, if it has ended
}

// BridgeFile is a file of a user.
type BridgeFile struct {
	Name string `json:"name"`
	Data []byte `json:"data"` // base64
	// Problem says why there is no data, for the agent.
	Problem string `json:"problem,omitempty"`
}

// BridgeDecision is the answer of a user to an approval.
type BridgeDecision struct {
	Key     string `json:"key"`
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitempty"`
}

// BridgeRejection names a notification that cannot be delivered by its sequence in the outbox.
type BridgeRejection struct {
	Sequence uint64 `json:"sequence"`
	Attempts int    `json:"attempts"` // to deliver it
	Code     string `json:"code"`
	Reason   string `json:"reason"`
}

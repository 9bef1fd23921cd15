package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// LastChannel is the channel name in calls and schedules that means the channel on
// which the user was last active, in any session.
const LastChannel = "last"

// DefaultSession is the session of a call without a session.
const DefaultSession = "default"

// ActionAgent is the Action of a call that an agent's loop makes. Its result goes to
// the loop and not to the user.
const ActionAgent = "agent"

// ActionHeartbeat is the Action of a call that a heartbeat makes.
const ActionHeartbeat = "heartbeat"

// HeartbeatOK is the reply of a heartbeat that has nothing to report.
const HeartbeatOK = "HEARTBEAT_OK"

// Delivery says who gets the completion of an agent's async call. Empty means both.
type Delivery string

const (
	// DeliverUser: the user, on the call's channel.
	DeliverUser Delivery = "user"
	// DeliverParent: the conversation that made the call. The user is told of a failure.
	DeliverParent Delivery = "parent"
	DeliverBoth   Delivery = "both"
)

// Call is a request to run one tool once. It is also the body of a call event, in
// which only Tool is required.
type Call struct {
	// ID identifies the call within its session. The client or the model chooses
	// it; it may be any text (see Token). One result answers it.
	ID string `json:"id,omitempty"`
	// Session is the conversation of the call. It isolates artifacts, state and
	// history.
	Session string `json:"session,omitempty"`
	// Tool is the name of the tool to run.
	Tool string `json:"tool,omitempty"`
	// Args is a JSON object that fits the tool's schema; nil means {}.
	Args json.RawMessage `json:"args,omitempty"`

	// Channel and ChatID are where the user of this call reads.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`

	// AgentID, TaskID and Action describe the caller. They are stored in the record
	// of the artifact and can be queried.
	AgentID string `json:"agent_id,omitempty"`
	TaskID  string `json:"task_id,omitempty"`
	Action  string `json:"action,omitempty"`

	// Delivery says who gets the completion of an async call that an agent makes.
	Delivery Delivery `json:"delivery,omitempty"`
	// Offload decides whether the result is offloaded. If it is nil, the worker's
	// policy decides.
	Offload *bool `json:"offload,omitempty"`
	// Deadline is the time after which the result is of no use.
	Deadline time.Time `json:"deadline,omitzero"`
	// Priority is "low", "normal" or "high"; empty means normal. It only matters while calls
	// wait. A call that is published directly needs it in the header Stevedore-Priority.
	Priority string `json:"priority,omitempty"`
}

// DecodeCall decodes the body of a call event. It ignores unknown fields, so that
// later versions can add fields.
//
// If only other fields than id and session are invalid, the error wraps an *Error,
// and the call has the valid fields: the worker can answer it. After any other error,
// the caller is unknown.
func DecodeCall(data []byte) (Call, error) { return decodeEvent[Call]("call", data) }

// SessionToken is the Token of Session, or of DefaultSession if Session is empty.
// SessionToken and IDToken are the key of the call in subjects, records and file
// names.
func (c Call) SessionToken() string { return Token(cmp.Or(c.Session, DefaultSession)) }

// IDToken is the Token of ID.
func (c Call) IDToken() string { return Token(c.ID) }

// Validate checks all fields but the arguments, which Registry.Run checks against the
// tool's schema.
func (c Call) Validate() error {
	switch {
	case c.ID == "":
		return Errorf(CodeInvalidCall, "the call has no id")
	case len(c.ID) > MaxIDLen:
		return Errorf(CodeInvalidCall, "the call's id has %d bytes; at most %d are accepted", len(c.ID), MaxIDLen)
	case len(c.Session) > MaxIDLen:
		return Errorf(CodeInvalidCall, "the call's session has %d bytes; at most %d are accepted", len(c.Session), MaxIDLen)
	case len(c.Channel) > MaxIDLen, len(c.ChatID) > MaxIDLen:
		return Errorf(CodeInvalidCall, "the call's channel or chat_id is longer than %d bytes", MaxIDLen)
	case c.Tool == "":
		return Errorf(CodeInvalidCall, "the call names no tool")
	case len(c.Tool) > maxTokenLen:
		return Errorf(CodeUnknownTool, "the tool's name has %d bytes; at most %d are accepted", len(c.Tool), maxTokenLen)
	}
	switch c.Priority {
	case "", "low", "normal", "high":
		return nil
	}
	return Errorf(CodeInvalidCall, "the call has the priority %.80q; use low, normal or high", c.Priority)
}

// Digest identifies the tool and the arguments, regardless of the order of keys and
// of white space. Two calls with the same id and different digests are a mistake of
// the client; the second call must not receive the result of the first one.
func (c Call) Digest() string {
	h := sha256.New()
	h.Write([]byte(c.Tool))
	h.Write([]byte{0})
	h.Write(jsonform.Canonical(c.Args))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

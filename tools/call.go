package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools/internal/fastjson"
)

// LastChannel is a channel's name in calls and schedules that stands for
// wherever the user was last heard, in any session.
const LastChannel = "last"

// DefaultSession is the session of a call that names none.
const DefaultSession = "default"

// ActionAgent is the Action of a call that an agent's loop makes. Its result is
// for the loop, which tells the user what there is to tell.
const ActionAgent = "agent"

// Call is a request to run one tool once. It is also the body of a call event;
// everything but Tool may be left out on the wire.
type Call struct {
	// ID names the call within its session, as the client or the model chose
	// it; one result answers it. It may be any text: see Token.
	ID string `json:"id,omitempty"`
	// Session is the conversation that the call belongs to. It isolates
	// artifacts, state and history.
	Session string `json:"session,omitempty"`
	// Tool is the name of the tool to run.
	Tool string `json:"tool,omitempty"`
	// Args is a JSON object that fits the tool's schema; nil means {}.
	Args json.RawMessage `json:"args,omitempty"`

	// Channel and ChatID say where the user of this call reads.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`

	// AgentID, TaskID and Action describe the caller; they become metadata of
	// the artifact and can be queried.
	AgentID string `json:"agent_id,omitempty"`
	TaskID  string `json:"task_id,omitempty"`
	Action  string `json:"action,omitempty"`

	// Offload forces the result out of the prompt (true) or keeps it in
	// (false). Nil leaves the decision to the worker's policy.
	Offload *bool `json:"offload,omitempty"`
	// Deadline is the time after which nobody wants the result any more.
	Deadline time.Time `json:"deadline,omitzero"`
}

// DecodeCall decodes the body of a call event. Unknown fields are ignored, so
// that fields can be added.
//
// If the body is one JSON object whose id and session can be read, an error wraps
// an *Error, with which the call can be answered, and comes with the fields that
// could be read. Otherwise it is not known whose call it is.
func DecodeCall(data []byte) (Call, error) {
	if call, ok := decodePlainCall(data); ok {
		return call, nil
	}
	call, err := decodeEvent[Call](data)
	if err != nil {
		return call, fmt.Errorf("decode call: %w", err)
	}
	return call, nil
}

// SessionToken and IDToken are the safe forms of Session (DefaultSession if it
// is empty) and ID; the pair is the call's key everywhere: in subjects, records
// and file names.
func (c Call) SessionToken() string { return Token(cmp.Or(c.Session, DefaultSession)) }

// IDToken is the safe form of ID.
func (c Call) IDToken() string { return Token(c.ID) }

// Validate reports what makes the call unfit to run, or nil. It does not look
// at the arguments: the registry does, against the tool's schema.
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
	return nil
}

// Digest identifies what the call asks for: its tool and its arguments, however
// their keys are ordered and spaced. Two calls with one id and two digests are
// a client's mistake; the second must never get the first one's result.
func (c Call) Digest() string {
	h := sha256.New()
	h.Write([]byte(c.Tool))
	h.Write([]byte{0})
	h.Write(fastjson.Canonical(c.Args))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Approval is a call that waits for a person's yes or no.
type Approval struct {
	// ID and Session are the tokens of the call.
	ID      string          `json:"id"`
	Session string          `json:"session"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	// AskedAt is when the worker asked. Without an answer before the Deadline, the answer
	// is no.
	AskedAt  time.Time `json:"asked_at"`
	Deadline time.Time `json:"deadline"`
	// Channel and ChatID are those of the call; both may be empty.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`
}

// Answer is a person's answer. The first one counts.
type Answer struct {
	Approve bool `json:"approve"`
	// By says who answered, such as "telegram:12345"; Reason is a text for the model.
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// Digest of the call, so that no other call with the same id is approved.
	Digest string `json:"call_digest"`
	// Expired is set if nobody answered in time.
	Expired bool `json:"expired,omitempty"`
}

// ApprovalOf returns the approval that a parked call waits for.
func ApprovalOf(p Parked) Approval {
	k, args := p.Key(), p.Call.Args
	if p.Shown != nil {
		args = p.Shown
	}
	return Approval{
		ID: k.ID, Session: k.Session, Tool: p.Call.Tool, Args: args,
		AskedAt: p.Since, Deadline: p.Until, Channel: p.Call.Channel, ChatID: p.Call.ChatID,
	}
}

// approval returns the approval that a call waits for; ok is false if it waits for none.
func (r Record) approval() (a Approval, ok bool) {
	if r.Parked == nil || r.Parked.State != InputRequired || r.Answer != nil {
		return Approval{}, false
	}
	return ApprovalOf(*r.Parked), true
}

// ListApprovals returns the calls of a session that wait for an approval, or those of all
// sessions if it is "*". The session is a token.
func ListApprovals(ctx context.Context, b *bus.Bus, session string) ([]Approval, error) {
	waiting := []Approval{}
	err := listRecords(ctx, b, session, func(r Record) {
		if a, ok := r.approval(); ok {
			waiting = append(waiting, a)
		}
	})
	return waiting, err
}

// maxMadeDepth bounds how deep ApprovalsFor follows calls that made others.
const maxMadeDepth = 16

// ApprovalsFor returns the approvals that a call waits for: its own, or those of the calls
// that it made, such as the tool calls of an agent and its sub-agents.
func ApprovalsFor(ctx context.Context, b *bus.Bus, k tools.CallKey) ([]Approval, error) {
	var waiting []Approval
	var follow func(k tools.CallKey, depth int) error
	follow = func(k tools.CallKey, depth int) error {
		r, err := ReadRecord(ctx, b, k)
		if r.Parked == nil || err != nil || depth > maxMadeDepth {
			return err
		}
		if a, ok := r.approval(); ok {
			waiting = append(waiting, a)
		}
		for _, made := range r.Parked.made() {
			if err := follow(made, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err := follow(k, 0)
	return waiting, err
}

// AnswerApproval answers an approval. It returns an error with tools.CodeNotFound if the
// call does not wait for one, and with tools.CodeInvalidArguments if it was answered
// before. When it returns nil, the answer is durable, and a worker continues the call.
func AnswerApproval(ctx context.Context, b *bus.Bus, k tools.CallKey, answer Answer) (Answer, error) {
	answer.At, answer.Expired = time.Now().UTC(), false
	answer.By, answer.Reason = tools.Excerpt(answer.By, 200), tools.Excerpt(answer.Reason, 2000)
	r, err := changeRecord(ctx, b, k, func(r *Record) error {
		switch {
		case r.Answer != nil && *r.Answer == answer: // stored, and the acknowledgement was lost
			return errUnchanged
		case r.Answer != nil:
			return alreadyAnswered(*r.Answer)
		case r.Parked == nil || r.Parked.State != InputRequired:
			return tools.Errorf(tools.CodeNotFound, "no call %.80q in session %.80q waits for an approval", k.ID, k.Session)
		}
		answer.Digest = r.Parked.Digest
		r.Answer = &answer
		return nil
	})
	if r.Answer == nil {
		return Answer{}, err
	}
	return *r.Answer, err
}

func alreadyAnswered(a Answer) error {
	word := "no"
	if a.Approve {
		word = "yes"
	}
	if a.Expired {
		return tools.Errorf(tools.CodeInvalidArguments, "the time for the answer has passed, so the answer was no")
	}
	return tools.Errorf(tools.CodeInvalidArguments, "the call was answered before: %s, at %s", word, a.At.Format(time.RFC3339))
}

// WriteAnswer stores an answer unless there is one, and returns the stored one.
func WriteAnswer(ctx context.Context, b *bus.Bus, k tools.CallKey, answer Answer) (stored Answer, err error) {
	r, err := changeRecord(ctx, b, k, func(r *Record) error {
		if r.Answer != nil {
			return errUnchanged
		}
		r.Answer = &answer
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	return *r.Answer, nil
}

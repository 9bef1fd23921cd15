package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const answerKey = "answer"

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
	k := p.Key()
	return Approval{
		ID: k.ID, Session: k.Session, Tool: p.Call.Tool, Args: p.Call.Args,
		AskedAt: p.Since, Deadline: p.Until, Channel: p.Call.Channel, ChatID: p.Call.ChatID,
	}
}

// ListApprovals returns the calls of a session that wait for an approval, or those of all
// sessions if it is "*". The session is a token.
func ListApprovals(ctx context.Context, b *bus.Bus, session string) ([]Approval, error) {
	parked, err := ListParked(ctx, b, session)
	if err != nil {
		return nil, err
	}
	waiting := []Approval{}
	for _, p := range parked {
		if p.State != InputRequired {
			continue
		}
		if _, answered, err := ReadAnswer(ctx, b, p.Key()); err != nil {
			return nil, err
		} else if !answered {
			waiting = append(waiting, ApprovalOf(p))
		}
	}
	return waiting, nil
}

// maxMadeDepth bounds how deep ApprovalsFor follows calls that made others.
const maxMadeDepth = 16

// ApprovalsFor returns the approvals that a call waits for: its own, or those of the calls
// that it made, such as the tool calls of an agent and its sub-agents.
func ApprovalsFor(ctx context.Context, b *bus.Bus, k tools.CallKey) ([]Approval, error) {
	var waiting []Approval
	var follow func(k tools.CallKey, depth int) error
	follow = func(k tools.CallKey, depth int) error {
		p, ok, err := ReadParked(ctx, b, k)
		if !ok || err != nil || depth > maxMadeDepth {
			return err
		}
		if p.State == InputRequired {
			_, answered, err := ReadAnswer(ctx, b, k)
			if err == nil && !answered {
				waiting = append(waiting, ApprovalOf(p))
			}
			return err
		}
		for _, made := range p.made() {
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
	p, ok, err := ReadParked(ctx, b, k)
	if err != nil {
		return Answer{}, err
	}
	answer.At, answer.Digest, answer.Expired = time.Now().UTC(), p.Digest(), false
	answer.By, answer.Reason = tools.Excerpt(answer.By, 200), tools.Excerpt(answer.Reason, 2000)
	if !ok || p.State != InputRequired {
		stored, answered, err := ReadAnswer(ctx, b, k)
		if err != nil {
			return Answer{}, err
		}
		if answered {
			return stored, alreadyAnswered(stored)
		}
		return Answer{}, tools.Errorf(tools.CodeNotFound, "no call %q in session %q waits for an approval", tools.Excerpt(k.ID, 80), tools.Excerpt(k.Session, 80))
	}
	stored, won, err := WriteAnswer(ctx, b, k, answer)
	if err == nil && !won {
		err = alreadyAnswered(stored)
	}
	return stored, err
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

// WriteAnswer stores an answer unless there is one. It returns the stored answer and
// whether it is this one.
func WriteAnswer(ctx context.Context, b *bus.Bus, k tools.CallKey, answer Answer) (stored Answer, won bool, err error) {
	body, err := bus.Encode(answer)
	if err != nil {
		return Answer{}, false, err
	}
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err == nil {
		_, err = kv.Create(ctx, keyOf(answerKey, k), body, jetstream.KeyTTL(recordTTL))
	}
	switch {
	case err == nil:
		return answer, true, nil
	case !errors.Is(err, jetstream.ErrKeyExists):
		return Answer{}, false, fmt.Errorf("answer call %s: %w", k.ID, err)
	}
	stored, ok, err := ReadAnswer(ctx, b, k)
	if err == nil && !ok {
		err = fmt.Errorf("answer call %s: another answer was stored and removed", k.ID)
	}
	return stored, false, err
}

// ReadAnswer returns the answer to a call's approval; ok is false if there is none.
func ReadAnswer(ctx context.Context, b *bus.Bus, k tools.CallKey) (a Answer, ok bool, err error) {
	kv, err := b.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return Answer{}, false, err
	}
	entry, err := kv.Get(ctx, keyOf(answerKey, k))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Answer{}, false, nil
	}
	if err != nil {
		return Answer{}, false, fmt.Errorf("read the answer to call %s: %w", k.ID, err)
	}
	if err := json.Unmarshal(entry.Value(), &a); err != nil {
		return Answer{}, false, fmt.Errorf("read the answer to call %s: %w", k.ID, err)
	}
	return a, true, nil
}

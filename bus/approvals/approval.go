package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
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

// ArgsText returns the arguments as a text in which nothing is invisible, for the person who is asked. Beyond
// limit bytes, it has only their start, and names the command that shows all; 0 means no limit.
func (a Approval) ArgsText(limit int, command string) string {
	text := a.argsText()
	if limit == 0 || len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s\n(This is only the start. The whole call: %s)", tools.Excerpt(text, limit), command)
}

func (a Approval) argsText() string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(a.Args, &fields) == nil && len(fields) == 1 {
		for _, value := range fields {
			var text string
			if json.Unmarshal(value, &text) == nil {
				return tools.Escape(text)
			}
		}
	}
	var indented bytes.Buffer
	if json.Indent(&indented, a.Args, "", "  ") != nil {
		return tools.Escape(string(a.Args))
	}
	return tools.EscapeJSON(indented.String())
}

// questionOf returns the approval that a parked call waits for.
func questionOf(p task.Parked) Approval {
	k, args := p.Key(), p.Call.Args
	if p.Shown != nil {
		args = p.Shown
	}
	return Approval{
		ID: k.ID, Session: k.Session, Tool: p.Call.Tool, Args: args,
		AskedAt: p.Since, Deadline: p.Until, Channel: p.Call.Channel, ChatID: p.Call.ChatID,
	}
}

// openIn returns the approval that a call waits for; ok is false if it waits for none.
func openIn(r task.Record) (a Approval, ok bool) {
	if !r.Asks() {
		return Approval{}, false
	}
	return questionOf(*r.Parked), true
}

// List returns the calls of a session that wait for an approval, or those of all
// sessions if it is "*". The session is a token.
func List(ctx context.Context, b *bus.Bus, session string) ([]Approval, error) {
	waiting, open := []Approval{}, map[tools.CallKey]Approval{}
	var found []tools.CallKey
	err := task.ListRecords(ctx, b, session, func(r task.Record) {
		delete(open, r.Key()) // it has changed since it was read
		if a, ok := openIn(r); ok {
			open[r.Key()] = a
			found = append(found, r.Key())
		}
	})
	for _, k := range found {
		if a, ok := open[k]; ok {
			waiting = append(waiting, a)
			delete(open, k)
		}
	}
	return waiting, err
}

// maxMadeDepth bounds how deep For follows calls that made others.
const maxMadeDepth = 16

// For returns the approvals that a call waits for: its own, or those of the calls
// that it made, such as the tool calls of an agent and its sub-agents. A call that
// waits for several goes on when one is given, and then waits again.
func For(ctx context.Context, b *bus.Bus, k tools.CallKey) ([]Approval, error) {
	var waiting []Approval
	var follow func(k tools.CallKey, depth int) error
	follow = func(k tools.CallKey, depth int) error {
		r, err := task.ReadRecord(ctx, b, k)
		if err != nil || depth > maxMadeDepth {
			return err
		}
		if a, ok := openIn(r); ok {
			waiting = append(waiting, a)
		}
		for _, made := range r.Made {
			if err := follow(made, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err := follow(k, 0)
	return waiting, err
}

// Answer answers an approval. It returns an error with tools.CodeNotFound if the
// call does not wait for one, and with tools.CodeInvalidArguments if it was answered
// before. When it returns nil, the answer is durable, and a worker continues the call.
func Answer(ctx context.Context, b *bus.Bus, k tools.CallKey, answer task.Answer) (task.Answer, error) {
	answer.At, answer.Expired = time.Now().UTC(), false
	answer.By, answer.Reason = tools.Excerpt(answer.By, 200), tools.Excerpt(answer.Reason, 2000)
	r, err := task.ChangeRecord(ctx, b, k, func(r *task.Record) error {
		switch {
		case r.Answer != nil:
			return AlreadyAnswered(*r.Answer)
		case !r.Asks():
			return tools.Errorf(tools.CodeNotFound, "no call %.80q in session %.80q waits for an approval", k.ID, k.Session)
		}
		answer.Digest = r.Parked.Digest
		r.Answer = &answer
		return nil
	})
	if r.Answer == nil {
		return task.Answer{}, err
	}
	return *r.Answer, err
}

// AlreadyAnswered is the error of a later answer.
func AlreadyAnswered(a task.Answer) error {
	word := "no"
	if a.Approve {
		word = "yes"
	}
	if a.Expired {
		return tools.Errorf(tools.CodeInvalidArguments, "the time for the answer has passed, so the answer was no")
	}
	return tools.Errorf(tools.CodeInvalidArguments, "the call was answered before: %s, at %s", word, a.At.Format(time.RFC3339))
}

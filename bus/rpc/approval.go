package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// ApprovalRequest holds the arguments of the functions for approvals.
type ApprovalRequest struct {
	// ID is the id of the call or its token.
	ID string `json:"id,omitempty"`
	// By says who answers; Reason is a text for the model.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ApprovalList lists the calls that wait for an approval.
type ApprovalList struct {
	Approvals []approvals.Approval `json:"approvals"`
	// Omitted counts those that would make the list too long: the ones with the latest deadlines.
	Omitted int `json:"omitted,omitempty"`
}

// Text is one line for each call.
func (l ApprovalList) Text() string {
	if len(l.Approvals) == 0 {
		return "No call waits for an approval."
	}
	lines := make([]string, len(l.Approvals))
	for i, a := range l.Approvals {
		lines[i] = fmt.Sprintf("%s  %s  %s  until %s  %s", a.Session, a.ID, a.Tool, a.Deadline.UTC().Format(time.RFC3339), tools.EscapeLine(string(a.Args)))
	}
	if l.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more)", l.Omitted))
	}
	return strings.Join(lines, "\n")
}

// ApprovalAnswer is the stored answer to an approval.
type ApprovalAnswer struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	task.Answer
}

// Text says what was answered.
func (a ApprovalAnswer) Text() string {
	if a.Approve {
		return fmt.Sprintf("Approved: %s runs.", a.ID)
	}
	return fmt.Sprintf("Denied: %s does not run.", a.ID)
}

// The operations on the calls that wait for an approval. The session and the function are part of
// the subject, so the server's permissions decide who may answer.
var (
	ListApprovals = Define("listApprovals", "approval.SESSION.list", "List the calls of a session that wait for a person's approval.", listApprovals).alone()
	// ListAllApprovals takes no arguments.
	ListAllApprovals = Define("listAllApprovals", "approvals.list", "List the calls of all sessions that wait for a person's approval.",
		func(ctx context.Context, env Env, _ struct{}) (ApprovalList, error) {
			return listApprovals(ctx, env, ApprovalRequest{})
		}).alone()
	Approve = Define("approve", "approval.SESSION.yes", "Let a call run.", answerApproval(true)).Changing().alone()
	Deny    = Define("deny", "approval.SESSION.no", "End a call that needs an approval.", answerApproval(false)).Changing().alone()
)

func answerApproval(yes bool) func(context.Context, Env, ApprovalRequest) (ApprovalAnswer, error) {
	return func(ctx context.Context, env Env, in ApprovalRequest) (none ApprovalAnswer, err error) {
		id, err := tokenOf(in.ID, "call")
		if err != nil {
			return none, err
		}
		k := tools.CallKey{Session: env.session(), ID: id}
		answer, err := approvals.Answer(ctx, env.Bus, k, task.Answer{Approve: yes, By: cmp.Or(in.By, "a client"), Reason: in.Reason})
		if err != nil {
			return none, err
		}
		return ApprovalAnswer{ID: k.ID, Session: k.Session, Answer: answer}, nil
	}
}

// maxApprovals and maxApprovalArgs limit a list, which has to fit into one message.
const (
	maxApprovals    = 200
	maxApprovalArgs = 2000
)

func listApprovals(ctx context.Context, env Env, _ ApprovalRequest) (ApprovalList, error) {
	waiting, err := approvals.List(ctx, env.Bus, env.session())
	if err != nil {
		return ApprovalList{}, err
	}
	omitted := max(0, len(waiting)-maxApprovals)
	waiting = waiting[:len(waiting)-omitted]
	size := 0
	for _, a := range waiting {
		size += len(a.Args)
	}
	if size > maxApprovals*maxApprovalArgs {
		for i, a := range waiting {
			if len(a.Args) > maxApprovalArgs {
				short, err := json.Marshal(tools.Excerpt(string(a.Args), maxApprovalArgs))
				if err != nil {
					return ApprovalList{}, err
				}
				waiting[i].Args = short
			}
		}
	}
	return ApprovalList{Approvals: waiting, Omitted: omitted}, nil
}

package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

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
	Approvals []task.Approval `json:"approvals"`
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

// approval lists and answers the approvals of a session:
// <prefix>.rpc.approval.<session>.<function>. The session and the function are part of the
// subject, so the server's permissions decide who may answer.
func (s *Service) approval(ctx context.Context, req micro.Request) (any, error) {
	tokens := s.bus.Split(req.Subject())
	session, function := tokens[2], tokens[3]
	var in ApprovalRequest
	if err := tools.DecodeStrict(orEmpty(req.Data()), &in); err != nil {
		return nil, badRequest(err)
	}
	if !tools.IsToken(session) {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the session in the subject must be of the form %s", tools.TokenForm)
	}
	switch {
	case function == "list":
		return s.listApprovals(ctx, session)
	case function != "yes" && function != "no":
		return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown function %q; known are list, yes, no", tools.Excerpt(function, 80))
	case in.ID == "":
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request names no call; give its id")
	}
	k := tools.CallKey{Session: session, ID: tools.TokenOf(in.ID)}
	answer := task.Answer{Approve: function == "yes", By: cmp.Or(in.By, "a client"), Reason: in.Reason}
	answer, err := task.AnswerApproval(ctx, s.bus, k, answer)
	if err != nil {
		return nil, err
	}
	return ApprovalAnswer{ID: k.ID, Session: session, Answer: answer}, nil
}

// approvals lists the approvals of all sessions: <prefix>.rpc.approvals.list.
func (s *Service) approvals(ctx context.Context, req micro.Request) (any, error) {
	if function := s.bus.Split(req.Subject())[2]; function != "list" {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown function %q; known is list", tools.Excerpt(function, 80))
	}
	return s.listApprovals(ctx, "*")
}

// maxApprovals and maxApprovalArgs limit a list, which has to fit into one message.
const (
	maxApprovals    = 200
	maxApprovalArgs = 2000
)

func (s *Service) listApprovals(ctx context.Context, session string) (ApprovalList, error) {
	waiting, err := task.ListApprovals(ctx, s.bus, session)
	if err != nil {
		return ApprovalList{}, err
	}
	waiting = waiting[:min(len(waiting), maxApprovals)]
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
	return ApprovalList{Approvals: waiting}, nil
}

package console

import (
	"net/http"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxApprovals    = 200
	maxApprovalArgs = 16 << 10
)

// shownApproval is an approval whose arguments are text, because they may be too long.
type shownApproval struct {
	approvals.Approval
	Args string `json:"args"`
	// Cut is set if Args are not all arguments.
	Cut bool `json:"cut,omitempty"`
}

// approvals lists the calls that wait for a person's answer, the first deadline first.
func (c *Console) approvals(r *http.Request) (any, error) {
	waiting, err := approvals.List(r.Context(), c.bus, "*") // this works without a worker
	if err != nil {
		return nil, err
	}
	shown := []shownApproval{}
	for _, a := range waiting[:min(len(waiting), maxApprovals)] {
		args := string(a.Args)
		shown = append(shown, shownApproval{a, tools.Excerpt(args, maxApprovalArgs), len(args) > maxApprovalArgs})
	}
	return map[string]any{"approvals": shown, "count": len(waiting)}, nil
}

// answerApproval approves or denies a call.
func (c *Console) answerApproval(r *http.Request) (any, error) {
	var in struct {
		Approve *bool  `json:"approve"`
		Reason  string `json:"reason"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if in.Approve == nil {
		return nil, badArgument("approve is missing: want true or false")
	}
	answer := rpc.Deny
	if *in.Approve {
		answer = rpc.Approve
	}
	k := callOf(r)
	return answer.Here(r.Context(), c.bus, k.Session, rpc.ApprovalRequest{ID: k.ID, By: "the page", Reason: in.Reason})
}

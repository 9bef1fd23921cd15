package console

import (
	"context"
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

var answerApproval = rpc.Define("answerApproval", "", "Approve or deny a call.", func(ctx context.Context, env rpc.Env, in struct {
	tools.CallKey
	Approve *bool  `json:"approve"`
	Reason  string `json:"reason"`
}) (answer rpc.ApprovalAnswer, err error) {
	if in.Approve == nil {
		return answer, badArgument("approve is missing: want true or false")
	}
	op := rpc.Deny
	if *in.Approve {
		op = rpc.Approve
	}
	return op.Here(ctx, env.Bus, in.Session, rpc.ApprovalRequest{ID: in.ID, By: "the page", Reason: in.Reason})
}).Changing()

package console

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

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

package agents

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// The operations on conversations. No worker offers them: they are for those who may read all
// conversations.
var (
	ListSessions  = rpc.Define("listSessions", "", "List the conversations of agents.", rpc.OnBus(list))
	RemoveSession = rpc.Define("removeSession", "", "Delete a conversation and those of its sub-agents.", named(remove)).Changing()
	GetTrace      = rpc.Define("getTrace", "", "Show what a run of a conversation did.", named(readTrace))
	GetTurn       = rpc.Define("getTurn", "", "Show a request to the model and the answer.", rpc.OnBus(readTurn))
	GetUsage      = rpc.Define("getUsage", "", "Show what the agents used.", rpc.OnBus(readUsage))
)

// named finds the session of a request by any of its names.
func named[Out any](run func(context.Context, *bus.Bus, SessionRequest) (Out, error)) func(context.Context, rpc.Env, SessionRequest) (Out, error) {
	return func(ctx context.Context, env rpc.Env, in SessionRequest) (out Out, err error) {
		name, err := NameOf(ctx, env.Bus, in.Session)
		switch {
		case err == nil:
			in.Session = name
		case tools.CodeOf(err) != tools.CodeNotFound: // otherwise it may be the token of one without a message
			return out, err
		}
		return run(ctx, env.Bus, in)
	}
}

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

const (
	// parallelCalls is how many calls of a turn run at once.
	parallelCalls = 16
	// maxResultBytes is how many bytes of results go into one entry. A larger result
	// has its own entry.
	maxResultBytes = 256 << 10
)

// runCalls runs calls of the last turn in parallel and logs their results in
// order. If some of them fail, it logs the results of the others.
func (r *run) runCalls(ctx context.Context, indexes []int) error {
	results, errs := make([]*CallResult, len(indexes)), make([]error, len(indexes))
	var group errgroup.Group // whose functions return no error: each call needs its own
	group.SetLimit(parallelCalls)
	r.reportProgress(ctx, r.conv.open.turns, fmt.Sprintf("%d tool calls", len(indexes)))
	for i, index := range indexes {
		group.Go(func() error {
			results[i], errs[i] = r.runCall(ctx, index)
			return nil
		})
	}
	_ = group.Wait()
	if IsCancelled(ctx) { // a call that was parked while others ran is cancelled too
		for i, index := range indexes {
			if isPause(errs[i]) {
				results[i], errs[i] = r.runCall(ctx, index)
			}
		}
	}
	r.step("log_answers")
	return errors.Join(r.logResults(ctx, results), joinPauses(errs))
}

// runCall runs one call. An error means that the call has no result.
func (r *run) runCall(ctx context.Context, index int) (res *CallResult, err error) {
	s := r.conv.open
	use := s.calls[index]
	call := tools.Call{
		ID: s.callID(index), Session: r.call.Session, Tool: use.Name, Args: use.Input,
		Channel: r.call.Channel, ChatID: r.call.ChatID,
		AgentID: r.call.AgentID, TaskID: r.call.TaskID, Action: tools.ActionAgent,
	}
	call.Deadline, _ = ctx.Deadline()
	ended := r.reportCall(ctx, call)
	defer func() { ended(res) }()
	// Another worker may have the tool, if the run started there.
	if _, ok := r.tools[use.Name]; !ok && !slices.Contains(r.limits.Tools, use.Name) {
		return rejected(call, tools.Errorf(tools.CodeUnknownTool, "unknown tool %q%s; known are %q", tools.Excerpt(use.Name, 80),
			tools.DidYouMean(use.Name, slices.Collect(maps.Keys(r.tools))), slices.Sorted(maps.Keys(r.tools)))), nil
	}
	if use.Name == SpawnTool {
		call.Delivery = deliveryOf(use.Input)
	}
	if startsSubagent(use.Name) {
		if s.childrenBefore(index) >= r.limits.MaxChildren {
			return rejected(call, tools.Errorf(tools.CodeToolFailed, "not started: this agent has reached its limit of %d sub-agents", r.limits.MaxChildren)), nil
		}
		call.Args = r.withChildLimits(call)
	}
	r.step("call")
	event, err := makeCall(ctx, r.runner, call)
	if final, ok := errors.AsType[*tools.Error](err); ok && ctx.Err() == nil {
		return rejected(call, final), nil
	}
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", use.Name, err)
	}
	res = &CallResult{Call: call.ID, Tool: call.Tool, Outcome: event.Outcome, Result: event.Result}
	if res.Blocks != nil {
		res.Blocks = acceptable(res.Blocks)
	}
	switch {
	case use.Name == SpawnTool && event.Outcome == tools.Async:
		res.SubagentTokens = r.childBudget()
	case startsSubagent(use.Name): // the runner waited for the sub-agent
		child, _ := ChildCall(call)
		res.SubagentTokens, err = r.tokensOf(ctx, child)
	}
	if err == nil && s.toolOutput == OutputAll { // before the result is in the log: a resumed run sends it again
		err = r.sendOutput(ctx, *res)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// makeCall makes a call, and again as long as nobody knows whether it was taken.
func makeCall(ctx context.Context, runner ToolRunner, call tools.Call) (event tools.ResultEvent, err error) {
	err = retry.Do(ctx, backOff(outageTimeout), func(err error) bool {
		_, final := errors.AsType[*tools.Error](err)
		return final || isPause(err) || ctx.Err() != nil
	}, nil, func() (err error) {
		event, err = runner.Call(ctx, call)
		return err
	})
	return event, err
}

// keysOf names calls of the last turn.
func (s *runState) keysOf(session string, indexes []int) (keys []tools.CallKey) {
	for _, index := range indexes {
		keys = append(keys, tools.CallKey{Session: session, ID: tools.Token(s.callID(index))})
	}
	return keys
}

// rejected is the result of a call that did not run.
func rejected(call tools.Call, err error) *CallResult {
	res := tools.Failure(err)
	return &CallResult{Call: call.ID, Tool: call.Tool, Outcome: tools.OutcomeOf(res), NotRun: true, Result: *res}
}

// rejectCalls logs results for calls that the loop does not run.
func (r *run) rejectCalls(ctx context.Context, indexes []int, why string) error {
	s := r.conv.open
	results := make([]*CallResult, len(indexes))
	for i, index := range indexes {
		results[i] = rejected(tools.Call{ID: s.callID(index), Tool: s.calls[index].Name},
			tools.Errorf(tools.CodeToolFailed, "This call did not run: %s.", why))
	}
	return r.logResults(ctx, results)
}

// logResults appends results, except nil ones, in as few entries as their size
// allows.
func (r *run) logResults(ctx context.Context, results []*CallResult) error {
	var (
		group []CallResult
		size  int
	)
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		err := r.append(ctx, Entry{Kind: KindResults, Results: group})
		group, size = nil, 0
		return err
	}
	for _, res := range results {
		if res == nil {
			continue
		}
		data, err := jsonform.Encode(res)
		if err != nil {
			return err
		}
		if size+len(data) > maxResultBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		group, size = append(group, *res), size+len(data)
	}
	return flush()
}

// tokensOf returns how many tokens a sub-agent used, or 0 if it never started.
func (r *run) tokensOf(ctx context.Context, call tools.Call) (int64, error) {
	end, err := endOf(ctx, r.log, SubagentSession(call), call.IDToken())
	return end.Usage.Total() + end.SubagentTokens, err
}

// endOf reads how a run ended. A run without an end has the zero outcome.
func endOf(ctx context.Context, log Conversations, session, run string) (Outcome, error) {
	session = tools.TokenOf(session)
	entries, _, err := log.Read(ctx, session, 0)
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: read conversation %s: %w", errLog, session, err)
	}
	for _, data := range slices.Backward(entries) {
		if e, err := DecodeEntry(data); err == nil && e.Kind == KindEnd && e.Run == run && e.End != nil {
			return *e.End, nil
		}
	}
	return Outcome{}, nil
}

// childBudget returns the token budget of each sub-agent of the last turn; 0 means
// no limit. It follows from the log, so that a repeated call has the same one.
func (r *run) childBudget() int64 {
	s := r.conv.open
	if r.limits.TokenBudget <= 0 {
		return 0
	}
	shares := 1 + min(s.newChildren, r.limits.MaxChildren-s.children)
	return max(1, (r.limits.TokenBudget-s.tokensUsed)/int64(shares))
}

// childrenBefore counts the sub-agents that the run started before a call of the
// last turn.
func (s *runState) childrenBefore(index int) int {
	n := s.children
	for _, call := range s.calls[:index] {
		if startsSubagent(call.Name) {
			n++
		}
	}
	return n
}

// withChildLimits returns the arguments of a call that starts a sub-agent, with its limits
// instead of those that the model wrote there.
func (r *run) withChildLimits(call tools.Call) json.RawMessage {
	limits := r.limits
	child, _ := ChildCall(call)
	limits.Name = subagentName(cmp.Or(r.limits.Name, r.call.Session), 1+slices.Index(SubagentSessions(r.conv.entries), SubagentSession(child)))
	limits.Depth++
	limits.TokenBudget = r.childBudget()
	return changeArgs(call.Args, func(fields map[string]json.RawMessage) {
		for name := range fields {
			if strings.EqualFold(name, limitsArg) { // encoding/json ignores the case
				delete(fields, name)
			}
		}
		fields[limitsArg], _ = jsonform.Encode(limits) // numbers and texts do not fail
	})
}

// changeArgs returns the arguments after a change. If they are no object, it returns them as they
// are: the schema of the tool rejects them.
func changeArgs(args json.RawMessage, change func(map[string]json.RawMessage)) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(args, &fields) != nil || fields == nil { // null
		return args
	}
	change(fields)
	out, _ := jsonform.Encode(fields) // what was decoded, and limits, do not fail
	return out
}

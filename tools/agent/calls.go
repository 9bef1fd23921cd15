package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// callPatience is how long a call is made again that failed before it
	// reached anybody.
	callPatience = 2 * time.Minute
	// maxGroup is how many bytes of answers go into one entry; a single answer
	// that is larger has an entry of its own.
	maxGroup = 256 << 10
)

// callTools makes the calls at some places of the last turn, in parallel, and
// logs their answers in order. Those that came are logged also if others failed.
func (r *run) callTools(ctx context.Context, places []int) error {
	var (
		answers = make([]*CallResult, len(places))
		errs    = make([]error, len(places))
		slots   = make(chan struct{}, r.cfg.Parallel)
		group   sync.WaitGroup
	)
	r.tell(ctx, r.conv.open.turns, fmt.Sprintf("%d tool calls", len(places)))
	for i, place := range places {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			answers[i], errs[i] = r.callTool(ctx, place)
		})
	}
	group.Wait()
	r.cfg.OnStep(StepLogResults)
	return errors.Join(r.logAnswers(ctx, answers), errors.Join(errs...))
}

// callTool makes one call. An error means that it has no answer.
func (r *run) callTool(ctx context.Context, place int) (*CallResult, error) {
	p := r.conv.open
	use := p.uses[place]
	call := tools.Call{
		ID: p.callID(place), Session: r.call.Session, Tool: use.Name, Args: use.Input,
		Channel: r.call.Channel, ChatID: r.call.ChatID,
		AgentID: r.call.AgentID, TaskID: r.call.TaskID, Action: tools.ActionAgent,
	}
	call.Deadline, _ = ctx.Deadline()
	if _, ok := r.offered[use.Name]; !ok {
		return failed(call, tools.Errorf(tools.CodeUnknownTool, "unknown tool %q; known are %q", tools.Excerpt(use.Name, 80), slices.Sorted(maps.Keys(r.offered)))), nil
	}
	if startsAgents(use.Name) {
		if p.spawnedBefore(place) >= r.grant.MaxChildren {
			return failed(call, tools.Errorf(tools.CodeToolFailed, "not started: this agent has started %d sub-agents, which is its limit", r.grant.MaxChildren)), nil
		}
		call.Args = r.granting(call.Args)
	}
	r.cfg.OnStep(StepCall)
	var event tools.ResultEvent
	policy := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(callPatience))
	err := backoff.Retry(func() (err error) {
		event, err = r.caller.Call(ctx, call)
		if _, final := errors.AsType[*tools.Error](err); final || err != nil && ctx.Err() != nil {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx))
	if refused, ok := errors.AsType[*tools.Error](err); ok && ctx.Err() == nil {
		return failed(call, refused), nil
	}
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", use.Name, err)
	}
	answer := &CallResult{Call: call.ID, Tool: call.Tool, Outcome: event.Outcome, Result: event.Result}
	switch {
	case use.Name == SubagentTool:
		answer.SubagentTokens, err = r.spentBy(ctx, call)
	case use.Name == SpawnTool && event.Outcome == tools.Async:
		answer.SubagentTokens = r.share()
	case use.Name == SpawnTool: // it was waited for
		answer.SubagentTokens, err = r.spentBy(ctx, childOf(call))
	}
	return answer, err
}

// spentBy is how many tokens a sub-agent used that has answered.
func (r *run) spentBy(ctx context.Context, call tools.Call) (int64, error) {
	call.Session = SubagentSession(call)
	entries, _, err := r.log.Read(ctx, call.SessionToken())
	if err != nil {
		return 0, fmt.Errorf("%w: read conversation %s: %w", errLog, call.SessionToken(), err)
	}
	for _, data := range slices.Backward(entries) {
		if e, err := DecodeEntry(data); err == nil && e.Kind == KindEnd && e.Run == call.IDToken() && e.End != nil {
			return e.End.Usage.Total() + e.End.SubagentTokens, nil
		}
	}
	return 0, nil // it never began
}

// share is what each sub-agent of the last turn may spend of the token budget;
// 0 is no limit. It follows from the log, so that the call is the same whenever
// it is made.
func (r *run) share() int64 {
	p := r.conv.open
	if r.grant.TokenBudget <= 0 {
		return 0
	}
	sharers := 1 + min(p.spawning, r.grant.MaxChildren-p.children)
	return max(1, (r.grant.TokenBudget-p.before)/int64(sharers))
}

// failed is the answer to a call that cannot be made.
func failed(call tools.Call, err error) *CallResult {
	res := tools.Failure(err)
	return &CallResult{Call: call.ID, Tool: call.Tool, Outcome: tools.OutcomeOf(res), NotRun: true, Result: *res}
}

// refuse answers calls that are not made.
func (r *run) refuse(ctx context.Context, places []int, why string) error {
	p := r.conv.open
	answers := make([]*CallResult, len(places))
	for i, place := range places {
		answers[i] = failed(tools.Call{ID: p.callID(place), Tool: p.uses[place].Name},
			tools.Errorf(tools.CodeToolFailed, "This call was not made: %s.", why))
	}
	return r.logAnswers(ctx, answers)
}

// logAnswers appends the answers that are there, as few entries as the size of
// messages allows.
func (r *run) logAnswers(ctx context.Context, answers []*CallResult) error {
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
	for _, a := range answers {
		if a == nil {
			continue
		}
		data, err := EncodeJSON(a)
		if err != nil {
			return err
		}
		if size+len(data) > maxGroup {
			if err := flush(); err != nil {
				return err
			}
		}
		group, size = append(group, *a), size+len(data)
	}
	return flush()
}

// spawnedBefore counts the sub-agents that the run asked for before a place of
// the last turn.
func (p *progress) spawnedBefore(place int) int {
	n := p.children
	for _, use := range p.uses[:place] {
		if startsAgents(use.Name) {
			n++
		}
	}
	return n
}

// granting puts what a sub-agent may do into its arguments: never more than this
// run may, whatever the model wrote there.
func (r *run) granting(args json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(args, &fields) != nil {
		return args // no object; the tool's schema refuses it
	}
	for name := range fields {
		if strings.EqualFold(name, "grant") { // as package encoding/json would take it
			delete(fields, name)
		}
	}
	grant := r.grant
	grant.Depth++
	grant.TokenBudget = r.share()
	var err error
	if fields["grant"], err = EncodeJSON(grant); err != nil {
		return args
	}
	out, err := EncodeJSON(fields)
	if err != nil {
		return args
	}
	return out
}

package agents

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Trace is a run with all that it did, its sub-agents and their calls.
type Trace struct {
	Run *agent.TraceStep `json:"run"`
	// Runs are the last runs of the session, oldest first, without their steps.
	Runs []*agent.TraceStep `json:"runs"`
	// Cut is set if the run has more steps than a trace shows.
	Cut bool `json:"cut,omitempty"`
}

const (
	maxTraceSteps = 2000 // of a trace
	maxTraceRuns  = 50
	maxTraceDepth = 16
	traceReads    = 16 // at once
	// leastQueue is the least time that is a wait: a worker takes some of it to begin a run.
	leastQueue = time.Second
)

// readTrace returns a run of a session, or its last one. It derives the trace from the conversations, and the times of calls and approvals
// from their results and records; where these are gone, it uses the times of the log.
func readTrace(ctx context.Context, b *bus.Bus, in SessionRequest) (Trace, error) {
	session, run := tools.TokenOf(in.Session), in.Run
	if run != "" {
		run = tools.TokenOf(run)
	}
	r := traceReader{bus: b, left: maxTraceSteps}
	runs, err := r.runs(ctx, session)
	if err != nil {
		return Trace{}, err
	}
	var t Trace
	for _, candidate := range runs {
		if run == "" || candidate.ID == run {
			t.Run = candidate
		}
	}
	if t.Run == nil {
		return Trace{}, tools.Errorf(tools.CodeNotFound, "session %.80q has no run %.80q; its conversation may be deleted", session, in.Run)
	}
	if err := r.complete(ctx, t.Run, 0); err != nil {
		return Trace{}, err
	}
	if err := r.addQueue(ctx, t.Run); err != nil {
		return Trace{}, err
	}
	t.Run.AddUsage()
	for _, candidate := range runs[max(0, len(runs)-maxTraceRuns):] {
		line := *candidate
		line.Steps = nil
		t.Runs = append(t.Runs, &line)
	}
	t.Cut = r.left < 0
	return t, nil
}

// traceReader completes a trace with what is stored outside of the conversation.
type traceReader struct {
	bus  *bus.Bus
	left int // steps that the trace may still get; negative if it has not all of them
}

// runs returns the runs of a session. An entry that no agent wrote is left out.
func (r *traceReader) runs(ctx context.Context, id string) ([]*agent.TraceStep, error) {
	bodies, _, err := session.New(r.bus).Read(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	entries, _ := agent.DecodeEntries(bodies) // the error is about those that are left out
	return agent.TraceRuns(entries), nil
}

func (r *traceReader) complete(ctx context.Context, s *agent.TraceStep, depth int) error {
	if r.left -= len(s.Steps); r.left < 0 {
		s.Steps = s.Steps[:max(0, len(s.Steps)+r.left)]
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(traceReads)
	for _, step := range s.Steps {
		if step.Kind == agent.TraceCall {
			group.Go(func() error { return r.completeCall(groupCtx, step) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, step := range s.Steps {
		if step.Conversation == "" || r.left < 0 || depth == maxTraceDepth {
			continue
		}
		runs, err := r.runs(ctx, step.Conversation)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			continue
		}
		if err := r.complete(ctx, runs[0], depth+1); err != nil {
			return err
		}
		step.Steps = append(step.Steps, runs[0].Steps...)
	}
	return nil
}

// addQueue adds how long a run waited until the earlier ones of its session had ended: from the first
// time that a worker had it.
func (r *traceReader) addQueue(ctx context.Context, run *agent.TraceStep) error {
	if run.Session == "" {
		return nil
	}
	stored, err := task.ReadResults(ctx, r.bus, run.Session, run.ID)
	if err != nil || len(stored) == 0 {
		return err
	}
	if had := stored[0].StartedAt; !had.IsZero() && run.At.Sub(had) > leastQueue {
		run.Steps = append([]*agent.TraceStep{{Kind: agent.TraceQueue, At: had, EndedAt: run.At}}, run.Steps...)
		run.At = had
	}
	return nil
}

// completeCall adds the times of a call's result, and the approval that it waited for.
func (r *traceReader) completeCall(ctx context.Context, s *agent.TraceStep) error {
	stored, err := task.ReadResults(ctx, r.bus, s.Session, s.ID)
	if err != nil {
		return err
	}
	if len(stored) > 0 {
		last := stored[len(stored)-1]
		s.State, s.RanMS, s.EndedAt = string(last.Outcome), last.DurationMS, last.EndedAt()
		if len(stored) > 1 { // the log has the first one, such as that the call goes on in the background
			s.Answer(last.Result)
		}
		if !task.Ended(stored) {
			s.EndedAt = time.Time{}
		}
	}
	record, err := task.ReadRecord(ctx, r.bus, tools.CallKey{Session: s.Session, ID: s.ID})
	if err != nil {
		return err
	}
	if s.State == "" && record.Parked != nil {
		s.State = string(record.Parked.State)
	}
	if !record.Asked.IsZero() {
		s.Steps = append(s.Steps, approvalStep(record))
	}
	return nil
}

// approvalStep returns the approval that a call waited for, or waits for.
func approvalStep(r task.Record) *agent.TraceStep {
	s := &agent.TraceStep{Kind: agent.TraceApproval, At: r.Asked, State: string(task.InputRequired)}
	a := r.Answer
	if a == nil {
		return s
	}
	s.EndedAt, s.Name, s.Text, s.State = a.At, a.By, a.Reason, "denied"
	switch {
	case a.Expired:
		s.State = "timeout"
	case a.Approve:
		s.State = "approved"
	}
	return s
}

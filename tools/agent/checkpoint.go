package agent

import (
	"context"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// resumableTool is a tool whose calls are runs.
type resumableTool struct {
	*tools.FuncTool
	log Conversations
	// runOf returns the session and the id of a call's run, as those of a call.
	runOf func(tools.Call) tools.Call
}

// Checkpoint reads from the logs how far the run of a call is.
func (t resumableTool) Checkpoint(ctx context.Context, call tools.Call, since time.Time) (tools.Checkpoint, error) {
	h, err := t.history(ctx, t.runOf(call))
	switch {
	case err != nil:
		return tools.Checkpoint{}, err
	case h.starts == nil: // the run waits for other runs of its session
		return tools.Checkpoint{Steps: countAfter(h.otherSteps, since)}, nil
	}
	var last time.Time
	for _, at := range h.steps {
		if at.After(last) {
			last = at
		}
	}
	return tools.Checkpoint{Steps: len(h.steps), Restarts: countAfter(h.starts, last)}, nil
}

// Made returns the calls of the run's last turn that have no result in the log, or the sub-agent of a spawn call. Another run of
// the session may have ended the run.
func (t resumableTool) Made(ctx context.Context, call tools.Call) (made []tools.CallKey, err error) {
	if child, ok := ChildCall(call); ok && call.Tool == SpawnTool {
		return []tools.CallKey{{Session: child.SessionToken(), ID: child.IDToken()}}, nil
	}
	call = t.runOf(call)
	session, run := call.SessionToken(), call.IDToken()
	log, _, err := t.log.Read(ctx, session, 0)
	if err != nil {
		return nil, err
	}
	entries, _ := DecodeEntries(log) // what cannot be decoded is of another version, or no entry
	if end := slices.IndexFunc(entries, func(e Entry) bool { return e.Kind == KindEnd && e.Run == run }); end >= 0 {
		entries = entries[:end]
	}
	if s := replay(entries).open; s != nil && s.id == run {
		made = s.keysOf(session, s.pending())
	}
	return made, nil
}

func countAfter(times []time.Time, after time.Time) (n int) {
	for _, at := range times {
		if at.After(after) {
			n++
		}
	}
	return n
}

// runHistory has the times of a run's events.
type runHistory struct {
	steps      []time.Time // of the run and of the sub-agents that it waits for
	starts     []time.Time // restarts included
	otherSteps []time.Time // of other runs in the session
}

func (t resumableTool) history(ctx context.Context, call tools.Call) (runHistory, error) {
	var h runHistory
	log, _, err := t.log.Read(ctx, call.SessionToken(), 0)
	if err != nil {
		return runHistory{}, err
	}
	entries, err := DecodeEntries(log)
	if err != nil {
		return runHistory{}, err
	}
	c, run := replay(entries), call.IDToken()
	for _, e := range entries {
		switch isStep := e.Kind == KindAssistant || e.Kind == KindResults || e.Kind == KindCompacted || e.Kind == KindWaiting || e.Kind == KindEnd; {
		case isStep && e.Run == run:
			h.steps = append(h.steps, e.At)
		case isStep:
			h.otherSteps = append(h.otherSteps, e.At)
		case e.Run == run && (e.Kind == KindUser || e.Kind == KindResumed):
			h.starts = append(h.starts, e.At)
		}
	}
	if c.open == nil || c.open.id != run {
		return h, nil
	}
	for _, index := range c.open.pending() {
		if c.open.calls[index].Name != SubagentTool {
			continue
		}
		child := tools.Call{ID: c.open.callID(index), Session: call.Session}
		child.Session = SubagentSession(child)
		childHistory, err := t.history(ctx, child)
		if err != nil {
			return runHistory{}, err
		}
		h.steps = append(h.steps, childHistory.steps...)
	}
	return h, nil
}

package agent

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// resumable is a tool whose calls are runs.
type resumable struct {
	*tools.FuncTool
	log Conversations
	// run names the session and the id of a call's run, as those of a call.
	run func(tools.Call) tools.Call
}

// Standing reads in the logs how far the run of a call is.
func (t resumable) Standing(ctx context.Context, call tools.Call, since time.Time) (tools.Standing, error) {
	w, err := t.way(ctx, t.run(call))
	switch {
	case err != nil:
		return tools.Standing{}, err
	case w.taken == nil: // it waits for others
		return tools.Standing{Steps: w.foreign(since)}, nil
	}
	standing := tools.Standing{Steps: len(w.steps)}
	var last time.Time
	for _, at := range w.steps {
		if at.After(last) {
			last = at
		}
	}
	for _, at := range w.taken {
		if at.After(last) {
			standing.Vain++
		}
	}
	return standing, nil
}

// way is what happened to a run and when: steps, also those of the sub-agents
// that it waits for, and how it was taken up. others are the steps of other runs
// in its session.
type way struct{ steps, taken, others []time.Time }

func (w way) foreign(since time.Time) (n int) {
	for _, at := range w.others {
		if at.After(since) {
			n++
		}
	}
	return n
}

func (t resumable) way(ctx context.Context, call tools.Call) (way, error) {
	var w way
	data, _, err := t.log.Read(ctx, call.SessionToken())
	if err != nil {
		return way{}, err
	}
	c, run := newConversation(), call.IDToken()
	for i, d := range data {
		e, err := DecodeEntry(d)
		if err != nil {
			return way{}, err
		}
		c.add(uint64(i+1), e)
		switch isStep := e.Kind == KindAssistant || e.Kind == KindResults || e.Kind == KindEnd; {
		case isStep && e.Run == run:
			w.steps = append(w.steps, e.At)
		case isStep:
			w.others = append(w.others, e.At)
		case e.Run == run && (e.Kind == KindUser || e.Kind == KindResumed):
			w.taken = append(w.taken, e.At)
		}
	}
	p := c.open
	if p == nil || p.run != run {
		return w, nil
	}
	for _, place := range p.missing() {
		if p.uses[place].Name != SubagentTool {
			continue
		}
		child := tools.Call{ID: p.callID(place), Session: call.Session}
		child.Session = SubagentSession(child)
		inner, err := t.way(ctx, child)
		if err != nil {
			return way{}, err
		}
		w.steps = append(w.steps, inner.steps...)
	}
	return w, nil
}

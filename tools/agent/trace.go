package agent

import (
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// TraceStep is what a run, or a part of it, did from At until EndedAt.
type TraceStep struct {
	Kind TraceKind `json:"kind"`
	// Name of the tool or of the model.
	Name string `json:"name,omitempty"`
	// Session and ID are the tokens of the call, of a run, its turns or a call.
	Session string `json:"session,omitempty"`
	ID      string `json:"id,omitempty"`
	// Turn is the number of a turn of the run with the ID, from 1.
	Turn int `json:"turn,omitempty"`
	// Conversation is the session (a token) of the sub-agent that a call starts.
	Conversation string    `json:"conversation,omitempty"`
	At           time.Time `json:"at"`
	// EndedAt is zero until the step has ended.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// RanMS is how long the tool of a call ran, in milliseconds, without the time before its start.
	RanMS int64 `json:"ran_ms,omitempty"`
	// State is the outcome of a call, the reason for the end of a run, or an answer. It is
	// empty while the step goes on.
	State string `json:"state,omitempty"`
	// Args is the start of the arguments of a call, Text that of the text: a prompt, words of
	// the model, or an error.
	Args string `json:"args_excerpt,omitempty"`
	Text string `json:"text,omitempty"`
	// Usage of a run, and of a call of a sub-agent, is that of all their steps; see AddUsage.
	Usage    Usage           `json:"usage,omitzero"`
	Artifact *tools.Artifact `json:"artifact,omitempty"`
	Steps    []*TraceStep    `json:"steps,omitempty"`
}

// TraceKind says what a TraceStep is.
type TraceKind string

const (
	traceRun      TraceKind = "run"
	traceTurn     TraceKind = "turn" // of the model, from the entry before it
	TraceCall     TraceKind = "call" // from the turn that made it
	TraceApproval TraceKind = "approval"
	traceWait     TraceKind = "wait"    // for a provider that is down
	TraceQueue    TraceKind = "queue"   // for the earlier runs of the session
	traceSummary  TraceKind = "summary" // of old turns
)

// AddUsage adds the usage of the steps to that of the step, and so on below them.
func (s *TraceStep) AddUsage() {
	for _, step := range s.Steps {
		step.AddUsage()
		s.Usage.Add(&step.Usage)
	}
}

// TraceRuns returns the runs of a log, oldest first, with what the log says of their steps.
func TraceRuns(entries []Entry) []*TraceStep {
	t := tracer{conv: newConversation(), calls: map[string]*TraceStep{}}
	for i, e := range entries {
		t.conv.add(uint64(i+1), e)
		t.add(e)
	}
	return t.runs
}

// tracer collects the steps of runs.
type tracer struct {
	conv  *conversation
	runs  []*TraceStep
	run   *TraceStep            // the last one
	wait  *TraceStep            // that has not ended
	calls map[string]*TraceStep // of the last run, by id
	last  time.Time             // of the last entry of the run
}

func (t *tracer) add(e Entry) {
	switch {
	case e.Kind == KindUser:
		t.run = &TraceStep{Kind: traceRun, ID: e.Run, At: e.At, Text: traceText(e.Message)}
		if e.Call != nil {
			t.run.Name, t.run.Session = tools.Excerpt(e.Call.Tool, 80), e.Call.SessionToken()
		}
		t.runs, t.wait = append(t.runs, t.run), nil
		clear(t.calls)
	case t.run == nil || e.Run != t.run.ID || e.Kind == KindNotice || !t.run.EndedAt.IsZero():
		return
	default:
		t.addStep(e)
	}
	t.last = e.At
}

func (t *tracer) addStep(e Entry) {
	if t.wait != nil {
		t.wait.EndedAt, t.wait = e.At, nil
	}
	switch {
	case e.Kind == KindAssistant && e.Message != nil:
		turn := t.append(TraceStep{Kind: traceTurn, Name: tools.Excerpt(e.Model, 80), EndedAt: e.At, Text: traceText(e.Message)})
		turn.Usage.Add(e.Usage)
		if s := t.conv.open; s != nil {
			turn.Session, turn.ID, turn.Turn = t.run.Session, t.run.ID, s.turns
		}
		t.addCalls(e.At)
	case e.Kind == KindResults:
		for _, res := range e.Results {
			t.endCall(e.At, res)
		}
	case e.Kind == KindCompacted && e.Compaction != nil:
		t.append(TraceStep{Kind: traceSummary, EndedAt: e.At, Text: shortText(e.Compaction.Summary)}).Usage.Add(e.Usage)
	case e.Kind == KindWaiting && e.Wait != nil:
		t.wait = t.append(TraceStep{Kind: traceWait, At: e.At})
		if e.Wait.Error != nil {
			t.wait.Text = shortText(e.Wait.Error.Message)
		}
	case e.Kind == KindEnd && e.End != nil:
		t.run.EndedAt, t.run.State = e.At, tools.Excerpt(string(e.End.Reason), 80)
	}
}

// append adds a step, which begins with the last entry unless it says when.
func (t *tracer) append(s TraceStep) *TraceStep {
	if s.At.IsZero() {
		s.At = t.last
	}
	t.run.Steps = append(t.run.Steps, &s)
	return &s
}

// addCalls adds the calls of the turn that was just added.
func (t *tracer) addCalls(at time.Time) {
	s := t.conv.open
	if s == nil || s.call == nil {
		return
	}
	for i, use := range s.calls {
		call := tools.Call{ID: s.callID(i), Session: s.call.Session, Tool: use.Name, Args: use.Input}
		step := t.append(TraceStep{Kind: TraceCall, Name: tools.Excerpt(use.Name, 80), Session: call.SessionToken(), ID: call.IDToken(),
			At: at, Args: tools.ShownArgs(call)})
		if child, ok := ChildCall(call); ok {
			step.Conversation = tools.TokenOf(SubagentSession(child))
		}
		t.calls[call.ID] = step
	}
}

func (t *tracer) endCall(at time.Time, res CallResult) {
	s := t.calls[res.Call]
	if s == nil {
		return
	}
	s.EndedAt, s.State = at, tools.Excerpt(string(res.Outcome), 80)
	s.Answer(res.Result)
}

// Answer shows a result of the call, in place of that in the log.
func (s *TraceStep) Answer(res tools.Result) {
	s.Text, s.Artifact = shortText(res.ForLLM), res.Artifact
}

func traceText(m *Message) string {
	if m == nil {
		return ""
	}
	return shortText(TextOf(m.Content))
}

// shortText returns the start of a text in one line.
func shortText(text string) string {
	const most = 300 // bytes
	return strings.TrimSpace(tools.Excerpt(tools.OneLine(tools.Excerpt(text, 4*most)), most))
}

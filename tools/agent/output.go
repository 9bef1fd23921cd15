package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// ToolOutput says which tool results the user sees, as messages before the reply.
// A silent result sends none.
type ToolOutput string

const (
	// OutputLast sends the result of the run's last call, when the run ends.
	OutputLast ToolOutput = "last"
	// OutputAll sends each result when its tool ends.
	OutputAll ToolOutput = "all"
	// OutputNone sends none.
	OutputNone ToolOutput = "none"
)

// hasOutput reports whether a result has a text for the user.
func (c CallResult) hasOutput() bool { return !c.Silent && strings.TrimSpace(c.ForUser) != "" }

// lastOutput returns the result that the user sees before a run ends so, or nil.
func (s *runState) lastOutput(end Outcome) *CallResult {
	switch {
	case s.toolOutput != OutputLast && s.toolOutput != "", end.Reason == Cancelled,
		s.lastResult == nil, !s.lastResult.hasOutput():
		return nil
	case strings.TrimSpace(s.lastResult.ForUser) == strings.TrimSpace(end.ForUser), slices.Contains(s.sent, strings.TrimSpace(s.lastResult.ForUser)):
		return nil // the user gets it once
	case s.call != nil && s.call.Action == tools.ActionHeartbeat && strings.TrimSpace(end.Reply) == tools.HeartbeatOK:
		return nil // nothing to report
	}
	return s.lastResult
}

// messageToUser returns the text that a call of the last turn sends to the user of the run, in its chat, or "".
func (s *runState) messageToUser(call Block) string {
	var in struct {
		Content, Channel string
		ChatID           string `json:"chat_id"`
	}
	own := cmp.Or(s.call, new(tools.Call))
	if call.Name != "message" || json.Unmarshal(call.Input, &in) != nil || cmp.Or(in.Channel, own.Channel) != own.Channel ||
		cmp.Or(in.ChatID, own.ChatID) != own.ChatID {
		return ""
	}
	return strings.TrimSpace(in.Content)
}

// sendOutput sends a result to the user. If the outbox fails for long, the run
// continues without the message. An error means that the process stops; the
// process that continues the run calls sendOutput again.
func (r *run) sendOutput(ctx context.Context, res CallResult) error {
	if r.cfg.SendOutput == nil || !res.hasOutput() {
		return nil
	}
	call := tools.Call{ID: res.Call, Session: r.call.Session, Tool: res.Tool, Channel: r.call.Channel, ChatID: r.call.ChatID}
	err := retry.Do(ctx, backOff(outageTimeout), func(error) bool { return false }, nil, func() error {
		sending, stop := withGrace(ctx, shutdownTimeout)
		defer stop()
		return r.cfg.SendOutput(sending, call, res.Result)
	})
	if err != nil && (ctx.Err() == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded)) {
		r.cfg.Log.Error().Err(err).Str("session", r.session).Str("call", res.Call).Msg("the output of a tool was not sent to the user")
		return nil
	}
	return err
}

// OutputOf returns the tool results that the user sees before the reply of a run.
func OutputOf(entries []Entry, run string) []CallResult {
	var shown []CallResult
	c := newConversation()
	for i, e := range entries {
		s := c.open
		c.add(uint64(i+1), e)
		switch {
		case s == nil || e.Run != run:
		case e.Kind == KindResults && s.toolOutput == OutputAll:
			for _, res := range e.Results {
				if res.hasOutput() {
					shown = append(shown, res)
				}
			}
		case e.Kind == KindEnd && e.End != nil:
			shown = slices.DeleteFunc(shown, func(res CallResult) bool { return strings.TrimSpace(res.ForUser) == strings.TrimSpace(e.End.Reply) })
			if res := s.lastOutput(*e.End); res != nil {
				shown = append(shown, *res)
			}
		}
	}
	return shown
}

package agents

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// typingInterval is how often a chat is told that the agent is working; chats show
	// it for 5 s.
	typingInterval = 4 * time.Second
	// resultInterval is how often showStatus looks for the result of its call.
	resultInterval = time.Second
	// statusTimeout bounds how long a run shows its status.
	statusTimeout = time.Hour
	// removeTimeout is how long the removal of a status may take.
	removeTimeout = 5 * time.Second
)

// showStatus shows in the chat of a call what the agent does, until the call has its
// result or the process stops. It shows that the agent is typing and, as soon as the
// agent calls a tool, a message that changes and is removed at the end. Failures are not
// retried, and the message of a process that is killed stays in the chat: the answer does
// not depend on them.
func (in *Inbox) showStatus(call tools.Call) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	var current atomic.Value // the last thing that the agent does
	stop, err := rpc.WatchProgress(in.bus, call, func(event tools.ProgressEvent) {
		for _, a := range event.Activity {
			if a.Type == tools.ActivityToolStart {
				current.Store("⏳ " + a.Tool + " " + tools.Excerpt(tools.EscapeLine(a.Args), 120))
			}
		}
	})
	if err != nil {
		return
	}
	defer stop()
	var (
		id, shown string // the message and its text
		last      time.Time
	)
	for {
		text, _ := current.Load().(string)
		if time.Since(last) >= typingInterval && (text == "" || text != shown) {
			last, shown = time.Now(), text
			if id, err = in.status.ShowStatus(ctx, call.ChatID, id, text); err != nil {
				in.log.Debug().Err(err).Str("channel", in.channel).Msg("cannot show the status of a run")
			}
		}
		select {
		case <-in.stop:
			cancel()
		case <-ctx.Done():
		case <-time.After(resultInterval):
			// An error may be temporary.
			if _, ended, _ := task.ReadResult(ctx, in.bus, in.bus.Result(call.SessionToken(), call.IDToken())); !ended {
				continue
			}
		}
		break
	}
	if id == "" {
		return
	}
	removing, done := context.WithTimeout(context.Background(), removeTimeout)
	defer done()
	if err := in.status.RemoveStatus(removing, call.ChatID, id); err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("cannot remove the status of a run")
	}
}

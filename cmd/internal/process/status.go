package process

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

// showStatus shows in the chat of a call what the agent does, until the call has its
// result or the process stops. It shows that the agent is typing and, as soon as the
// agent calls a tool, a message that changes and is removed at the end. id names the
// message if another process, which has died, sent it. Failures are not retried: the answer
// does not depend on them.
func (in *inbox) showStatus(call tools.Call, id string) {
	key := tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()}
	if _, shown := in.shown.LoadOrStore(key, true); shown {
		return
	}
	defer in.shown.Delete(key)
	status := task.Shown{Call: key, Tool: call.Tool, Channel: in.channel, ChatID: call.ChatID, Message: id}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	go func() {
		select {
		case <-in.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	var (
		mu      sync.Mutex
		current string // the last thing that the agent does
	)
	stop, err := client.WatchProgress(in.bus, call, func(event tools.ProgressEvent) {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range event.Activity {
			if a.Type == tools.ActivityToolStart {
				current = "⏳ " + a.Tool + " " + tools.Excerpt(tools.EscapeLine(a.Args), 120)
			}
		}
	})
	if err != nil {
		return
	}
	defer stop()
	ended := in.awaitResult(ctx, call)
	shown, hasEnded := "", false
	for {
		mu.Lock()
		text := current
		mu.Unlock()
		switch {
		case text == "":
			_, err = in.status.ShowStatus(ctx, call.ChatID, "", "")
		case text != shown:
			shown = text
			id, err = in.status.ShowStatus(ctx, call.ChatID, id, text)
			if id != status.Message && id != "" {
				status.Message = id
				in.storeStatus(ctx, status)
			}
		}
		if err != nil {
			in.log.Debug().Err(err).Str("channel", in.channel).Msg("cannot show the status of a run")
			err = nil
		}
		select {
		case <-ended:
			hasEnded = ctx.Err() == nil
		case <-ctx.Done():
		case <-time.After(typingInterval):
			continue
		}
		break
	}
	removing, done := context.WithTimeout(context.Background(), removeTimeout)
	defer done()
	status.Message = id
	switch {
	case !hasEnded: // the process that continues the call shows it again
		in.removeMessage(removing, &status)
		in.storeStatus(removing, status)
	case id != "":
		in.removeStatus(removing, status)
	}
}

// storeStatus stores which message shows a call.
func (in *inbox) storeStatus(ctx context.Context, s task.Shown) {
	if err := task.StoreShown(ctx, in.bus, s); err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("the status of a run stays in its chat if this process dies")
	}
}

// removeMessage removes the message of a status, and reports whether it is gone.
func (in *inbox) removeMessage(ctx context.Context, s *task.Shown) bool {
	if s.Message != "" {
		if err := in.status.RemoveStatus(ctx, s.ChatID, s.Message); err != nil {
			in.log.Warn().Err(err).Str("channel", in.channel).Msg("cannot remove the status of a run")
			return false
		}
	}
	s.Message = ""
	return true
}

// removeStatus removes the status of a call that has ended.
func (in *inbox) removeStatus(ctx context.Context, s task.Shown) {
	if !in.removeMessage(ctx, &s) {
		return // keepStatuses tries again
	}
	if err := task.RemoveShown(ctx, in.bus, s.Call); err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("the record of a status remains")
	}
}

// leftInterval is how often a process looks for statuses that another one left.
const leftInterval = 30 * time.Second

// keepStatuses takes over the statuses of processes that died or stopped, until ctx ends. It
// continues to show calls that have no result, and removes the statuses of the others.
func (in *inbox) keepStatuses(ctx context.Context) error {
	if in.status == nil {
		return nil
	}
	for first := true; ; first = false {
		left, err := task.ListShown(ctx, in.bus, in.channel)
		if err != nil && ctx.Err() == nil {
			in.log.Debug().Err(err).Msg("cannot look for statuses of runs")
		}
		for _, s := range left {
			if _, shown := in.shown.Load(s.Call); shown {
				continue
			}
			_, ended, err := task.ReadResult(ctx, in.bus, in.bus.Result(s.Call.Session, s.Call.ID))
			switch {
			case ended:
				in.removeStatus(ctx, s)
			case err == nil && first: // later, another process may show it
				call := tools.Call{ID: s.Call.ID, Session: s.Call.Session, Tool: s.Tool, ChatID: s.ChatID}
				in.showing.Go(func() { in.showStatus(call, s.Message) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(leftInterval):
		}
	}
}

// awaitResult returns a channel that is closed when the call has its result.
func (in *inbox) awaitResult(ctx context.Context, call tools.Call) <-chan struct{} {
	ended := make(chan struct{})
	in.showing.Go(func() {
		defer close(ended)
		for ctx.Err() == nil {
			if _, ok, _ := task.ReadResult(ctx, in.bus, in.bus.Result(call.SessionToken(), call.IDToken())); ok {
				return // otherwise an error may be temporary
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return ended
}

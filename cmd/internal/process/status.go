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
// agent calls a tool, a message that changes and is removed at the end. Failures are not
// retried: the answer does not depend on them.
func (in *inbox) showStatus(call tools.Call) {
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
	id, shown := "", ""
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
		}
		if err != nil {
			in.log.Debug().Err(err).Str("channel", in.channel).Msg("cannot show the status of a run")
			err = nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(typingInterval):
			continue
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

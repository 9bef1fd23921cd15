package task

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// WaitingCall is a call that the server has delivered to no worker.
type WaitingCall struct {
	Task
	Queue string `json:"queue"`
}

// ListWaiting returns the first calls of all sessions that wait in a queue, at most limit,
// oldest first.
func ListWaiting(ctx context.Context, b *bus.Bus, queue string, limit int) ([]WaitingCall, error) {
	waiting := []WaitingCall{}
	for _, in := range []struct {
		consumer bus.Consumer
		subject  string
	}{
		{b.WorkerConsumer(queue), b.Call(queue, "*", "*", "*")},
		{b.IntakeConsumer(queue), b.ShortCall(queue, "*")},
	} {
		if len(waiting) >= limit {
			break
		}
		p, err := b.ConsumerProgress(ctx, in.consumer)
		if err != nil {
			return nil, err
		}
		err = b.ScanFrom(ctx, in.consumer.Stream, in.subject, p.Delivered+1, limit-len(waiting), func(m bus.Stored) {
			subject, _ := b.SplitCall(m.Subject)
			call, ok := decodeUnsettled(subject, m)
			if !ok {
				return
			}
			t := Task{ID: call.IDToken(), Session: call.SessionToken(), Tool: tools.Excerpt(call.Tool, 80), State: Queued, QueuedAt: m.At}
			waiting = append(waiting, WaitingCall{t, queue})
		})
		if err != nil {
			return nil, err
		}
	}
	return waiting, nil
}

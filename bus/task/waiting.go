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
	p, err := bus.ReadProgress(ctx, b, b.WorkerConsumer(queue))
	if err != nil {
		return nil, err
	}
	for m, err := range b.Read(ctx, bus.Calls, bus.Query{Subject: b.Call(queue, "*", "*", "*"), From: p.Delivered + 1, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		if subject, ok := b.SplitCall(m.Subject); ok {
			t := Task{ID: subject.ID, Session: subject.Session, Tool: tools.Excerpt(subject.Tool, 80), State: Queued, QueuedAt: m.At}
			waiting = append(waiting, WaitingCall{t, queue})
		}
	}
	return waiting, nil
}

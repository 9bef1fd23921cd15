package commands

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

// feed shows in a conversation what happens besides the answers: completions of background
// tasks, and questions whether a call may run, which the user answers with yes or no.
type feed struct {
	o      promptOptions
	bus    *bus.Bus
	prompt *cli.Prompt
	stderr io.Writer
	asked  chan struct{} // gets a value when a question is open

	began      time.Time
	reconnects uint64 // of the connection, at the last look at what it missed

	mu    sync.Mutex
	open  []approvals.Approval // oldest first
	shown map[string]bool      // questions and completions
	// closed, if not nil, is called when no question is open any more.
	closed func()
}

// approvalInterval is how often the feed looks for questions.
const approvalInterval = time.Second

// startFeed starts the feed of a session, which stop ends. Without a prompt, the user answers
// questions elsewhere.
func startFeed(ctx context.Context, o promptOptions, b *bus.Bus, prompt *cli.Prompt, stderr io.Writer) (f *feed, stop func(), err error) {
	o.Session = o.call.Session
	f = &feed{o: o, bus: b, prompt: prompt, stderr: stderr, asked: make(chan struct{}, 1), shown: map[string]bool{},
		began: time.Now(), reconnects: b.Conn().Stats().Reconnects}
	sub, err := b.Conn().Subscribe(b.Completion(tools.TokenOf(o.call.Session), "*"), func(msg *nats.Msg) {
		if event, err := task.DecodeResult(b, msg.Subject, msg.Data); err == nil {
			f.showCompletion(event)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch the background tasks of session %q: %w", o.call.Session, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var polling sync.WaitGroup
	polling.Go(func() {
		for f.poll(ctx); tools.Sleep(ctx, approvalInterval) == nil; {
			f.poll(ctx)
			f.catchUp(ctx)
		}
	})
	return f, func() {
		cancel()
		polling.Wait()
		_ = sub.Unsubscribe() // fails only if the connection is closed
	}, nil
}

// poll reads which questions are open. It ignores failures, because the next poll asks again.
func (f *feed) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := client.Ask(ctx, &f.o.Options, f.bus, rpc.ListApprovals, rpc.ApprovalRequest{})
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = slices.DeleteFunc(list.Out.Approvals, func(a approvals.Approval) bool { return f.shown["answer."+a.ID] })
	for _, a := range f.open {
		if f.isNew("approval." + a.ID) {
			how := "Answer yes or no (or: no, REASON), or in another terminal"
			if f.prompt == nil {
				how = "Answer in another terminal"
			}
			cli.Note(f.stderr, "May %s run?\n%s\n%s: %s", tools.EscapeLine(a.Tool), cli.Indent(a.ArgsText(0, "")), how,
				f.o.Connection.Command("approvals", "yes", a.ID))
		}
	}
	if len(f.open) == 0 {
		if f.closed != nil {
			f.closed()
		}
		return
	}
	select {
	case f.asked <- struct{}{}:
	default:
	}
}

// catchUp shows the completions that were stored while the connection was lost. After a failure, the next one looks again.
func (f *feed) catchUp(ctx context.Context) {
	n := f.bus.Conn().Stats().Reconnects
	if n == f.reconnects {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for m, err := range f.bus.Read(ctx, bus.Results, bus.Query{Subject: f.bus.Completion(tools.TokenOf(f.o.call.Session), "*"), Since: f.began}) {
		if err != nil {
			return
		}
		if event, err := task.DecodeResult(f.bus, m.Subject, m.Body); err == nil {
			f.showCompletion(event)
		}
	}
	f.reconnects = n
}

// isNew reports whether something was not shown yet. The caller holds mu.
func (f *feed) isNew(what string) bool {
	shown := f.shown[what]
	f.shown[what] = true
	return !shown
}

func (f *feed) showCompletion(event tools.ResultEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if event.Delivery == tools.DeliverParent && !event.IsError || !f.isNew("completion."+event.ID) {
		return
	}
	text := event.ForUser
	if strings.TrimSpace(text) == "" {
		text = event.ForLLM
	}
	text, whole := firstOutput(strings.TrimSpace(text))
	if !whole {
		text += "\n[the start of the text]"
	}
	ended := fmt.Sprintf("The background task %s (%s) has ended: %s.", event.ID, event.Tool, event.Outcome)
	cli.Note(f.stderr, "%s\n%s", tools.EscapeLine(ended), cli.Indent(text))
}

// answer answers the oldest open question if the message is a yes or a no. Otherwise,
// answered is false.
func (f *feed) answer(ctx context.Context, message string) (answered bool) {
	yes, reason, ok := agents.YesOrNo(message)
	op := rpc.Deny
	if yes {
		op = rpc.Approve
	}
	f.mu.Lock()
	if !ok || len(f.open) == 0 {
		f.mu.Unlock()
		return false
	}
	question := f.open[0]
	f.open = f.open[1:]
	f.shown["answer."+question.ID] = true
	f.mu.Unlock()
	_, err := client.Ask(ctx, &f.o.Options, f.bus, op, rpc.ApprovalRequest{ID: question.ID, By: "stevedore agent", Reason: reason})
	switch {
	case err != nil:
		cli.Note(f.stderr, "stevedore: cannot answer: %v", err)
		f.mu.Lock()
		delete(f.shown, "answer."+question.ID) // if nobody has answered, the next poll asks again
		delete(f.shown, "approval."+question.ID)
		f.mu.Unlock()
	case yes:
		cli.Note(f.stderr, "Approved: %s runs.", question.Tool)
	default:
		cli.Note(f.stderr, "Denied: %s does not run.", question.Tool)
	}
	return true
}

// answerDuring reads answers to questions until ctx ends, because no message is read while a
// run goes on. It sends to interrupts if the user presses Ctrl-C.
func (f *feed) answerDuring(ctx context.Context, interrupts chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.asked:
		}
		for f.isOpen() && ctx.Err() == nil {
			reading, stop := context.WithCancel(ctx)
			f.setClosed(stop)
			message, err := f.prompt.ReadAnswer(reading)
			f.setClosed(nil)
			ended := reading.Err() != nil
			stop()
			switch {
			case ended && err != nil: // answered elsewhere, or the run has ended
			case err == cli.ErrInterrupted:
				select {
				case interrupts <- struct{}{}:
				default:
				}
			case err != nil:
				return // the end of the input; another client can answer
			case !f.answer(ctx, message) && f.isOpen():
				cli.Note(f.stderr, "Answer yes or no (or: no, REASON). Ctrl-C cancels the run.")
			}
		}
	}
}

func (f *feed) isOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open) > 0
}

func (f *feed) setClosed(closed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = closed
}

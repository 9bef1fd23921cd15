package process

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// statusChat is a chat that shows statuses.
type statusChat struct {
	mu       sync.Mutex
	shown    map[string]string // texts, by message
	sent     int               // new messages
	failures int               // removals that still fail
}

func (c *statusChat) ShowStatus(_ context.Context, _, id, text string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case id == "" && text == "": // typing
		return "", nil
	case id == "":
		c.sent++
		id = strings.Repeat("new ", c.sent)
	}
	c.shown[id] = text
	return id, nil
}

func (c *statusChat) RemoveStatus(_ context.Context, _, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures > 0 {
		c.failures--
		return errors.New("the chat does not answer")
	}
	delete(c.shown, id)
	return nil
}

// texts returns what the chat shows.
func (c *statusChat) texts() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.shown)
}

// statusStage is a bus with one chat and the calls of its user, which no worker runs.
type statusStage struct {
	*testing.T
	bus  *bus.Bus
	chat *statusChat
}

// inbox returns an inbox, as a process has it for the channel.
func (s statusStage) inbox() *inbox {
	in := newInbox(&parts{bus: s.bus, log: bustest.Log(s.T)}, "me", nil)
	in.status = s.chat
	return in
}

// left is a call whose message a process left that has died.
func (s statusStage) left(id string) {
	s.Helper()
	call := prompt("me-42", id, "go")
	if _, err := rpc.Enqueue(s.Context(), s.bus, bus.AgentQueue, call); err != nil {
		s.Fatal(err)
	}
	s.chat.mu.Lock()
	s.chat.shown[id] = "left"
	s.chat.mu.Unlock()
	shown := task.Shown{Call: tools.CallKey{Session: "me-42", ID: id}, Tool: agent.AgentTool, Channel: "me", ChatID: "42", Message: id}
	if err := task.StoreShown(s.Context(), s.bus, shown); err != nil {
		s.Fatal(err)
	}
}

// end gives a call its result.
func (s statusStage) end(id string) {
	s.Helper()
	if _, err := task.Cancel(s.Context(), s.bus, "me-42", id, "a test"); err != nil {
		s.Fatal(err)
	}
}

// publish says that the agent of a call uses a tool.
func (s statusStage) publish(id, tool string) {
	s.Helper()
	body, err := bus.Encode(tools.ProgressEvent{Progress: tools.Progress{Activity: []tools.Activity{{Type: tools.ActivityToolStart, Tool: tool}}}})
	if err == nil {
		err = s.bus.Conn().Publish(s.bus.Progress("me-42", id), body)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// uses says that the agent of a call uses a tool, until the chat shows that in a message.
func (s statusStage) uses(id, tool, message string) {
	s.Helper()
	bustest.WaitUntil(s.T, "the status of "+id, func() bool {
		s.publish(id, tool)
		return strings.HasPrefix(s.chat.texts()[message], "⏳ "+tool)
	})
}

// records returns the statuses that are stored.
func (s statusStage) records() []task.Shown {
	s.Helper()
	all, err := task.ListShown(s.Context(), s.bus, "me")
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// checkEmpty fails the test unless all statuses of calls that have ended are removed in time.
func (s statusStage) checkEmpty() {
	s.Helper()
	time.Sleep(2 * leftInterval)
	if got, records := s.chat.texts(), s.records(); len(got) > 0 || len(records) > 0 {
		s.Errorf("after the end of all calls, the chat shows %q, with the records %+v", got, records)
	}
}

// A process takes over the statuses that another one left when it died: it removes those of
// calls that have ended, also if a removal fails first, and changes the messages of the others
// until they end. Another process may show a call that is left later.
func TestStatusesOfADeadProcess(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := statusStage{t, bustest.New(t), &statusChat{shown: map[string]string{}, failures: 1}}
		s.left("ended")
		s.left("running")
		s.end("ended")
		in := s.inbox()
		bustest.Run(t, func(ctx context.Context) error {
			defer in.wait()
			return in.keepStatuses(ctx)
		})
		s.uses("running", "shell", "running")
		s.left("later")
		time.Sleep(10 * leftInterval)
		s.publish("later", "grep")
		time.Sleep(2 * typingInterval)
		want := map[string]string{"running": "⏳ shell ", "later": "left"}
		if got := s.chat.texts(); !maps.Equal(got, want) || len(s.records()) != 2 {
			t.Errorf("the chat shows %q, with the records %+v; want %q", got, s.records(), want)
		}
		s.end("running")
		s.end("later")
		s.checkEmpty()
		if s.chat.sent > 0 {
			t.Errorf("%d new messages for calls that had one", s.chat.sent)
		}
	})
}

// A process that stops removes the message of a call, and the process that continues shows the
// call again until it ends.
func TestStatusOverAStop(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := statusStage{t, bustest.New(t), &statusChat{shown: map[string]string{}}}
		first := s.inbox()
		if _, err := first.Accept(t.Context(), notify.Incoming{ID: "1", ChatID: "42", Text: "go"}); err != nil {
			t.Fatal(err)
		}
		s.uses("message-1", "shell", "new ")
		time.Sleep(typingInterval)
		if records := s.records(); len(records) != 1 || records[0].Message != "new " {
			t.Errorf("the records of the message are %+v", records)
		}
		first.wait()
		if records := s.records(); len(s.chat.texts()) > 0 || len(records) != 1 || records[0].Message != "" {
			t.Errorf("after the stop, the chat shows %q, with the records %+v", s.chat.texts(), records)
		}
		second := s.inbox()
		bustest.Run(t, func(ctx context.Context) error {
			defer second.wait()
			return second.keepStatuses(ctx)
		})
		s.uses("message-1", "grep", "new new ")
		s.end("message-1")
		s.checkEmpty()
	})
}

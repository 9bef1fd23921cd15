package agents

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// statusChat is a chat that shows statuses.
type statusChat struct {
	mu    sync.Mutex
	shown map[string]string // texts, by message
	sent  int               // new messages
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
func (s statusStage) inbox() *Inbox {
	in := NewInbox(s.bus, nil, nil, "me", nil, bustest.Log(s.T))
	in.status = s.chat
	return in
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

// accept lets the inbox of a process accept a message, which becomes a call.
func (s statusStage) accept(id string) *Inbox {
	s.Helper()
	in := s.inbox()
	if _, err := in.Accept(s.Context(), channel.Incoming{ID: id, ChatID: "42", Text: "go"}); err != nil {
		s.Fatal(err)
	}
	return in
}

// A chat shows what the agent does until the call ends, or until the process stops.
func TestStatusEndsWithItsCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := statusStage{t, bustest.New(t), &statusChat{shown: map[string]string{}}}
		for id, end := range map[string]func(*Inbox){
			"1": func(*Inbox) { s.end("message-1"); time.Sleep(2 * resultInterval) },
			"2": func(in *Inbox) { in.Close() },
		} {
			s.chat.sent = 0
			in := s.accept(id)
			s.uses("message-"+id, "shell", "new ")
			s.uses("message-"+id, "grep", "new ")
			end(in)
			if shown := s.chat.texts(); len(shown) > 0 || s.chat.sent != 1 {
				t.Errorf("after %d messages, the chat shows %q", s.chat.sent, shown)
			}
			in.Close()
		}
	})
}

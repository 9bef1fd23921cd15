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
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// draftChat is a chat that shows drafts.
type draftChat struct {
	channel.Channel
	mu    sync.Mutex
	shown map[string]string // texts, by message
	sent  int               // new messages
}

func (c *draftChat) ShowDraft(_ context.Context, _, id string, draft channel.Draft) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case draft == channel.Draft{}: // typing
		return "", nil
	case id == "":
		c.sent++
		id = strings.Repeat("new ", c.sent)
	}
	c.shown[id] = draft.Text + draft.Status
	return id, nil
}

func (c *draftChat) RemoveDraft(_ context.Context, _, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.shown, id)
	return nil
}

// texts returns what the chat shows.
func (c *draftChat) texts() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.shown)
}

// draftStage is a bus with one chat and the calls of its user, which no worker runs.
type draftStage struct {
	*testing.T
	bus  *bus.Bus
	chat *draftChat
}

// inbox returns an inbox, as a process has it for the channel.
func (s draftStage) inbox() *Inbox {
	n, err := notify.New(s.bus, notify.Config{})
	if err != nil {
		s.Fatal(err)
	}
	return NewInbox(s.bus, n, nil, "me", s.chat, bustest.Log(s.T))
}

// end gives a call its result.
func (s draftStage) end(id string) {
	s.Helper()
	if _, err := task.Cancel(s.Context(), s.bus, "me-42", id, "a test"); err != nil {
		s.Fatal(err)
	}
}

// publish says that the agent of a call uses a tool.
func (s draftStage) publish(id, tool string) {
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
func (s draftStage) uses(id, tool, message string) {
	s.Helper()
	bustest.WaitUntil(s.T, "the status of "+id, func() bool {
		s.publish(id, tool)
		return strings.HasPrefix(s.chat.texts()[message], "⏳ "+tool)
	})
}

// accept lets the inbox of a process accept a message, which becomes a call.
func (s draftStage) accept(id string) *Inbox {
	s.Helper()
	in := s.inbox()
	if _, err := in.Accept(s.Context(), channel.Incoming{ID: id, ChatID: "42", Text: "go"}); err != nil {
		s.Fatal(err)
	}
	return in
}

// A chat shows what the agent does until the call ends, also without an answer. A process that
// stops leaves the draft to whoever delivers the answer.
func TestDraftEndsWithItsCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := draftStage{t, bustest.New(t), &draftChat{shown: map[string]string{}}}
		s.chat.sent = 0
		in := s.accept("1")
		s.uses("message-1", "shell", "new ")
		s.uses("message-1", "grep", "new ")
		s.end("message-1")
		time.Sleep(2*resultInterval + deliveryTimeout)
		in.Close()
		if shown := s.chat.texts(); len(shown) > 0 || s.chat.sent != 1 {
			t.Errorf("after the end and %d messages, the chat shows %q", s.chat.sent, shown)
		}
		in = s.accept("2")
		s.uses("message-2", "shell", "new new ")
		in.Close()
		if shown := s.chat.texts(); len(shown) != 1 {
			t.Errorf("after a stop, the chat shows %q", shown)
		}
	})
}

// A draft has the text of the last turn, as far as no piece of it was lost.
func TestDraftGrows(t *testing.T) {
	var g growing
	for i, step := range []struct {
		activity tools.Activity
		want     channel.Draft
	}{
		{tools.Activity{Type: tools.ActivityText, Turn: 1, Text: "Ich prü"}, channel.Draft{Text: "Ich prü"}},
		{tools.Activity{Type: tools.ActivityText, Turn: 1, Offset: 7, Text: "fe."}, channel.Draft{Text: "Ich prüfe."}},
		{tools.Activity{Type: tools.ActivityText, Turn: 1, Offset: 12, Text: "lost"}, channel.Draft{Text: "Ich prüfe."}},
		{tools.Activity{Type: tools.ActivityToolStart, Turn: 1, Tool: "shell", Args: "{\n}"}, channel.Draft{Text: "Ich prüfe.", Status: `⏳ shell {\n}`}},
		{tools.Activity{Type: tools.ActivityToolEnd, Turn: 1, Tool: "shell"}, channel.Draft{Text: "Ich prüfe.", Status: `⏳ shell {\n}`}},
		{tools.Activity{Type: tools.ActivityText, Turn: 2, Text: "Wrong"}, channel.Draft{Text: "Wrong"}},
		{tools.Activity{Type: tools.ActivityText, Turn: 2, Text: "Right"}, channel.Draft{Text: "Right"}}, // the model began again
	} {
		g.add(step.activity)
		if got := g.draft(); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
}

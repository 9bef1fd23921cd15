package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// draftChat is a chat with messages that can be edited.
type draftChat struct {
	mu       sync.Mutex
	messages []string // removed ones are empty
	fails    []error  // of the next calls of Send
	lose     bool     // the next response of Send is lost
	keeps    int      // so many of the next calls of RemoveDraft fail
	edit     chan struct{}
}

func (c *draftChat) put(id, text string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "" {
		c.messages = append(c.messages, text)
		return strconv.Itoa(len(c.messages) - 1), nil
	}
	at, err := strconv.Atoi(id)
	if err != nil || c.messages[at] == "" {
		return "", consume.Reject("refused_400", errors.New("message to edit not found"))
	}
	c.messages[at] = text
	return id, nil
}

func (c *draftChat) Send(_ context.Context, n channel.Notification) error {
	c.mu.Lock()
	var err error
	if len(c.fails) > 0 {
		err, c.fails = c.fails[0], c.fails[1:]
	}
	lose := c.lose
	c.lose = false
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err = c.put(n.Replaces, n.Text); err != nil {
		_, err = c.put("", n.Text)
	}
	if lose {
		return errors.New("the response is lost")
	}
	return err
}

func (c *draftChat) ShowDraft(_ context.Context, _, id string, draft channel.Draft) (string, error) {
	if c.edit != nil {
		c.edit <- struct{}{}
		<-c.edit
	}
	return c.put(id, draft.Text)
}

func (c *draftChat) RemoveDraft(_ context.Context, _, id string) error {
	if c.keeps > 0 {
		c.keeps--
		return errors.New("502")
	}
	_, err := c.put(id, "")
	return err
}

// shows returns the messages.
func (c *draftChat) shows() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.messages), func(text string) bool { return text == "" })
}

// The message of a draft becomes the answer, with whatever happens meanwhile; what else a chat
// gets comes before the answer.
func TestDraftBecomesTheAnswer(t *testing.T) {
	answer := `{"kind":"result","session":"me-42","call":"c1","chat_id":"42","text":"answer"}`
	other := `{"chat_id":"42","text":"other"}`
	later := func(s *draftStage) { s.publish(answer); s.publish(other) }
	for name, test := range map[string]struct {
		run  func(s *draftStage)
		want []string
	}{
		"no draft":                       {later, []string{"answer", "other"}},
		"a draft":                        {func(s *draftStage) { s.show("c1", "a"); s.show("c1", "ans"); later(s) }, []string{"answer", "other"}},
		"a message in between":           {func(s *draftStage) { s.show("c1", "a"); s.publish(other); s.show("c1", "ans"); later(s) }, []string{"other", "answer", "other"}},
		"a draft after the answer":       {func(s *draftStage) { s.show("c1", "a"); later(s); s.show("c1", "ans"); s.end("c1") }, []string{"answer", "other"}},
		"a first draft after the answer": {func(s *draftStage) { later(s); s.show("c1", "a") }, []string{"answer", "other"}},
		"a draft of the next call":       {func(s *draftStage) { s.show("c1", "a"); later(s); s.awaits("answer", "other"); s.show("c2", "b") }, []string{"answer", "other", "b"}},
		"a draft that another call left": {func(s *draftStage) { s.show("c0", "a"); s.show("c1", "b"); later(s) }, []string{"answer", "other"}},
		"an attempt that fails":          {func(s *draftStage) { s.show("c1", "a"); s.chat.fails = []error{errors.New("502")}; later(s) }, []string{"answer", "other"}},
		"a response that is lost":        {func(s *draftStage) { s.show("c1", "a"); s.chat.lose = true; later(s) }, []string{"answer", "other"}},
		"a draft that the user deleted":  {func(s *draftStage) { s.show("c1", "a"); _, _ = s.chat.put("0", ""); later(s) }, []string{"answer", "other"}},
		"an old draft":                   {func(s *draftStage) { s.show("c1", "a"); time.Sleep(2 * maxDraftAge); later(s) }, []string{"answer", "other"}},
		"an old draft in an outage": {func(s *draftStage) {
			s.show("c1", "a")
			time.Sleep(2 * maxDraftAge)
			s.fail(1)
			later(s)
		}, []string{"answer", "other"}},
		"an old draft that stays at first": {func(s *draftStage) {
			s.show("c1", "a")
			time.Sleep(2 * maxDraftAge)
			s.chat.keeps = 1
			later(s)
		}, []string{"answer", "other"}},
		"a message in between in an outage": {func(s *draftStage) {
			s.show("c1", "a")
			s.fail(2)
			s.publish(other)
			s.show("c1", "ans")
			later(s)
		}, []string{"other", "answer", "other"}},
		"a message in between while the draft stays": {func(s *draftStage) {
			s.show("c1", "a")
			s.chat.keeps = 1
			s.publish(other)
			s.show("c1", "ans")
			later(s)
		}, []string{"other", "answer", "other"}},
		"no answer in an outage": {func(s *draftStage) {
			s.show("c1", "a")
			s.chat.keeps = 1
			if s.notifier.EndDraft(s.Context(), s.chat, "me", s.call("c1")) == nil {
				s.Error("the draft is removed in an outage")
			}
			s.publish(other)
		}, []string{"other"}},
		"no answer":        {func(s *draftStage) { s.show("c1", "a"); s.end("c1"); s.publish(other) }, []string{"other"}},
		"a killed process": {func(s *draftStage) { s.show("c1", "a"); s.killInEdit("c1"); later(s) }, []string{"answer", "other"}},
		"an edit that takes its time": {func(s *draftStage) {
			s.show("c1", "a")
			s.chat.edit = make(chan struct{})
			go s.show("c1", "ans")
			<-s.chat.edit
			s.publish(answer)
			time.Sleep(answerWithin + time.Second) // the answer would be there
			if failing := s.failures.List(); len(failing) > 0 {
				s.Errorf("the receiver of the answer was not called, and %+v", failing)
			}
			s.chat.edit <- struct{}{}
			s.publish(other)
		}, []string{"answer", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				s := &draftStage{T: t, bus: bustest.New(t), chat: &draftChat{}}
				var err error
				if s.notifier, err = New(s.bus, Config{Default: "me", Channels: map[string]channel.Channel{"me": s.chat}}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(s.failures.With(t.Context()))
				done := make(chan error, 1)
				go func() { done <- s.notifier.Run(ctx) }()
				test.run(s)
				s.awaits(test.want...)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type draftStage struct {
	*testing.T
	bus      *bus.Bus
	notifier *Notifier
	chat     *draftChat
	failures trouble.Register
}

// publish publishes a notification and waits until it is delivered.
func (s *draftStage) publish(body string) {
	s.Helper()
	publish(s.T, s.bus, s.bus.NotifyAny("me"), body)
	if s.chat.edit == nil {
		waitAcked(s.T, s.bus, s.bus.ChannelConsumer("me"))
	}
}

func (s *draftStage) call(id string) tools.Call {
	return tools.Call{ID: id, Session: "me-42", Channel: "me", ChatID: "42"}
}

func (s *draftStage) show(id, text string) {
	s.Helper()
	if err := s.notifier.ShowDraft(s.Context(), s.chat, "me", s.call(id), channel.Draft{Text: text}); err != nil {
		s.Error(err)
	}
}

// awaits waits until the chat shows these messages.
func (s *draftStage) awaits(want ...string) {
	s.Helper()
	bustest.WaitUntil(s, "the messages", func() bool { return slices.Equal(s.chat.shows(), want) })
}

// fail lets the next attempts to send a notification fail with the removal of the draft before it.
func (s *draftStage) fail(attempts int) {
	s.chat.keeps = attempts
	for range attempts {
		s.chat.fails = append(s.chat.fails, errors.New("502"))
	}
}

func (s *draftStage) end(id string) {
	s.Helper()
	if err := s.notifier.EndDraft(s.Context(), s.chat, "me", s.call(id)); err != nil {
		s.Error(err)
	}
}

// killInEdit leaves the record as a process that is killed while it edits.
func (s *draftStage) killInEdit(id string) {
	s.Helper()
	if _, _, err := s.notifier.changeDraft(s.Context(), "me", "42", func(d *draft) bool {
		if !d.isOf("me-42", id) {
			s.Error(fmt.Sprint("the draft is ", d))
		}
		d.Editing = true
		return true
	}); err != nil {
		s.Error(err)
	}
}

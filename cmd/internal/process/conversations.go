package process

import (
	"context"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// conversations adds notices of the notifier to the logs of agents.
type conversations struct {
	log   agent.Conversations
	facts state.Store
}

func newConversations(b *bus.Bus, facts state.Store) conversations {
	return conversations{busLog{session.New(b)}, facts}
}

// Completed adds the completion of a background task to the conversation that started it.
func (c conversations) Completed(ctx context.Context, session, call string, event tools.ResultEvent) error {
	text := event.ForLLM
	if text == "" && event.Error != nil {
		text = event.Error.Message
	}
	return agent.AddNotice(ctx, c.log, session, agent.Notice{
		ID:    fmt.Sprintf("completion.%s.%s", session, call),
		Title: fmt.Sprintf("The background task %s (%s) has ended: %s. Its result:", call, event.Tool, event.Outcome),
		Text:  text,
	})
}

// Received adds a message to the conversation of the chat that receives it, if it comes from
// another session.
func (c conversations) Received(ctx context.Context, n notify.Notification) error {
	owner, err := state.LastSession(ctx, c.facts, state.Channel{Name: n.Channel, ChatID: n.ChatID})
	if err != nil || owner == "" || owner == (tools.Call{Session: n.Session}).SessionToken() {
		return err
	}
	at := n.At
	if at.IsZero() {
		at = time.Now()
	}
	return agent.AddNotice(ctx, c.log, owner, agent.Notice{
		ID:    "message." + n.ID,
		Title: fmt.Sprintf("At %s, the user received this message from the session %s:", at.UTC().Format(time.DateTime), tools.Excerpt(n.Session, 80)),
		Text:  n.Text,
	})
}

package agents

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Conversations adds notices of the notifier to the logs of agents.
type Conversations struct {
	log   agent.Conversations
	facts state.Store
	chats map[string]string
}

// NewConversations returns the conversations of a bus. facts has the last channels of
// sessions; chats has the default chat of each channel whose users may write to the agent.
func NewConversations(b *bus.Bus, facts state.Store, chats map[string]string) Conversations {
	return Conversations{busLog{session.New(b)}, facts, chats}
}

// SubSessions returns a function that returns the sessions of the sub-agents that the runs of
// a session started.
func SubSessions(b *bus.Bus) func(ctx context.Context, session string) ([]string, error) {
	log := session.New(b)
	return func(ctx context.Context, session string) ([]string, error) {
		bodies, _, err := log.Read(ctx, session, 0)
		if err != nil {
			return nil, err
		}
		entries, err := agent.DecodeEntries(bodies)
		return agent.SubagentSessions(entries), err
	}
}

// ConsoleSession is the session of the user at the console: messages to the
// console enter it.
const ConsoleSession = "console"

// defaultSession returns the session in which the user of a channel writes, although he has
// not done so yet, or "".
func (c Conversations) defaultSession(channel, chat string) string {
	byDefault, receives := c.chats[channel]
	switch {
	case channel == ConsoleSession && chat == "":
		return ConsoleSession
	case receives && cmp.Or(chat, byDefault) != "":
		return tools.TokenOf(channel + "-" + cmp.Or(chat, byDefault))
	}
	return ""
}

// Completed adds the completion of a background task to the conversation that started it.
func (c Conversations) Completed(ctx context.Context, session, call string, event tools.ResultEvent) error {
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
func (c Conversations) Received(ctx context.Context, n channel.Notification) error {
	owner, err := state.LastSession(ctx, c.facts, state.Channel{Name: n.Channel, ChatID: n.ChatID})
	add := agent.AddNotice
	if _, scheduled := schedule.ParseCallID(n.Call); owner == "" && err == nil && scheduled {
		owner, add = c.defaultSession(n.Channel, n.ChatID), agent.BeginWithNotice
	}
	if err != nil || owner == "" || owner == (tools.Call{Session: n.Session}).SessionToken() {
		return err
	}
	at := n.At
	if at.IsZero() {
		at = time.Now()
	}
	return add(ctx, c.log, owner, agent.Notice{
		ID:    "message." + n.ID,
		Title: fmt.Sprintf("At %s, the user received this message from the session %s:", at.UTC().Format(time.DateTime), tools.Excerpt(n.Session, 80)),
		Text:  n.Text,
	})
}

// LastChannels tells the notifier which channel a session used last: it is a
// notify.LastChannels.
type LastChannels struct{ Facts state.Store }

func (l LastChannels) LastChannel(ctx context.Context, session string) (channel, chat string, err error) {
	c, err := state.LastChannel(ctx, l.Facts, session)
	return c.Name, c.ChatID, err
}

func (l LastChannels) LastSession(ctx context.Context, channel, chat string) (string, error) {
	return state.LastSession(ctx, l.Facts, state.Channel{Name: channel, ChatID: chat})
}

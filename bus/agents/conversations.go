package agents

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/state/kv"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Conversations adds notices of the notifier to the logs of agents.
type Conversations struct {
	log       agent.Conversations
	facts     state.Store
	shared    state.Store // what the processes of a bus know of each other
	receiving []string
}

// NewConversations returns the conversations of a bus. facts has the last channels of
// sessions; receiving are the channels whose users may write to the agent by this process.
func NewConversations(b *bus.Bus, facts state.Store, receiving []string) Conversations {
	return Conversations{busLog{session.New(b)}, facts, sharedState(b), receiving}
}

// sharedState is the state on the bus; that of a server in this process is in a file.
func sharedState(b *bus.Bus) state.Store {
	return kv.New(b.API(), func(ctx context.Context) (jetstream.KeyValue, error) { return b.Bucket(ctx, bus.StateBucket) })
}

// SetReceives tells the notifiers of all processes that this one receives what the users of a channel write.
func SetReceives(ctx context.Context, b *bus.Bus, channel string) error {
	return state.SetReceives(ctx, sharedState(b), channel)
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

// sessionOf returns the session of the messages that the user of a chat writes, or "". receives is
// set if users of the channel write in their chats. chat is "" if the notification names none and
// the channel has no default.
func (c Conversations) sessionOf(ctx context.Context, n channel.Notification, chat string) (session string, receives bool, err error) {
	if receives = slices.Contains(c.receiving, n.Channel); !receives { // another process may
		if receives, err = state.Receives(ctx, c.shared, tools.TokenOf(n.Channel)); err != nil {
			return "", false, err
		}
	}
	switch {
	case receives && chat != "":
		return tools.TokenOf(n.Channel + "-" + chat), true, nil
	case receives: // a text without a chat is for none of the users
		return "", true, nil
	}
	for _, id := range []string{chat, n.ChatID} {
		if session, err = c.lastSession(ctx, state.Channel{Name: n.Channel, ChatID: id}); err != nil || session != "" {
			return session, false, err
		}
	}
	switch {
	case chat != "": // another process may receive
		return tools.TokenOf(n.Channel + "-" + chat), false, nil
	case n.Channel == ConsoleSession:
		return ConsoleSession, false, nil
	}
	return "", false, nil
}

// lastSession is state.LastSession, but a chat has no part in what a channel gets without a chat.
func (c Conversations) lastSession(ctx context.Context, at state.Channel) (session string, err error) {
	session, err = state.LastSession(ctx, c.facts, at)
	if err != nil || session == "" || at.ChatID != "" {
		return session, err
	}
	last, err := state.LastChannel(ctx, c.facts, session)
	if last.Name == at.Name && last.ChatID != "" {
		session = ""
	}
	return session, err
}

// isOfUser reports whether users write in a session: it is not that of a sub-agent or of a heartbeat.
func isOfUser(session string) bool {
	_, isSubagent := agent.ParentSession(session)
	return session != "" && !isSubagent && !strings.HasPrefix(session, bus.Heartbeat+"-")
}

// Completed adds the completion of a background task to the conversation that started it.
func (c Conversations) Completed(ctx context.Context, session, call string, event tools.ResultEvent) error {
	text := event.ForLLM
	if text == "" && event.Error != nil {
		text = event.Error.Message
	}
	return agent.AddNotice(ctx, c.log, session, agent.Notice{
		ID:    fmt.Sprintf("completion.%s.%s", session, call),
		Call:  call,
		Title: fmt.Sprintf("The background task %s (%s) has ended: %s. Its result:", call, event.Tool, event.Outcome),
		Text:  text,
	})
}

// maxNoticeID bounds the part of a notice's ID that a client has chosen, in bytes.
const maxNoticeID = 200

// Received adds a text that a user gets to the conversation of his chat, unless a run of it has
// the text. A conversation begins with it if he may answer in the chat, or at the console what a
// schedule wrote to him. The text is there before the channel has it, and stays if the channel never takes it, so
// the notice says that it was sent. If the chat gets another session between two attempts, both have it.
//
// A channel without chats shows the texts of all sessions. The user answers each where it comes from,
// or at the console in the session of the console, too.
func (c Conversations) Received(ctx context.Context, n channel.Notification, chat string) error {
	session, receives, err := c.sessionOf(ctx, n, chat)
	if err != nil {
		return err
	}
	if from := tools.TokenOf(n.Session); chat == "" && n.ChatID == "" && from != session && isOfUser(n.Session) {
		exists, err := c.add(ctx, n, from, false)
		if err != nil || exists && n.Channel != ConsoleSession {
			return err
		}
	}
	if session == "" {
		return nil
	}
	_, err = c.add(ctx, n, session, receives)
	return err
}

// add adds a text that a user gets to a conversation, and reports whether there is one.
func (c Conversations) add(ctx context.Context, n channel.Notification, session string, receives bool) (exists bool, err error) {
	own := tools.TokenOf(n.Session) == session
	if own && strings.HasPrefix(n.ID, outputPrefix) {
		return true, nil // the run that sends it has the result
	}
	what, from := "was sent this message", " from the session "+tools.Excerpt(n.Session, 80)
	job, scheduled := cron.ParseCallID(n.Call)
	switch {
	case own && scheduled:
		from = " from the job " + job
	case own || n.Session == "":
		from = ""
	}
	call, id := "", n.ID
	if n.Approval != nil {
		what = "was asked this question" // the run has the call, and not the question
	} else if n.Call != "" {
		call = tools.Token(n.Call)
	}
	if len(id) > maxNoticeID {
		id = tools.Token(id)
	}
	return agent.AddMessage(ctx, c.log, session, agent.Notice{
		ID:    fmt.Sprintf("message.%s.%x", id, sha256.Sum256([]byte(n.Text))), // a client may use its ids again
		Call:  call,
		Title: fmt.Sprintf("At %s, the user %s%s:", n.At.UTC().Format(time.DateTime), what, from),
		Text:  n.Text,
	}, receives && !own || scheduled && (receives || session == ConsoleSession))
}

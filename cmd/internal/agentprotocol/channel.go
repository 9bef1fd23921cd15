// Package agentprotocol makes agents reachable for clients of the Synadia Agent Protocol for
// NATS, version 0.3 (https://github.com/synadia-ai/synadia-agents). It is a channel: each of
// its chats is a session of the agent, and a micro service with the name "agents".
//
//	agents.prompt.<agent>.<owner>.<session>        a prompt; chunks go to its reply subject
//	agents.status.<agent>.<owner>.<session>        a request for a heartbeat
//	agents.hb.<agent>.<owner>.<session>            heartbeats
//	agents.answer.<agent>.<owner>.<session>.<key>  answers to queries, which are approvals
//
// A prompt is a call of the agent whose id has the client's reply subject, so every process that
// has the channel can send the answer: if a worker is killed, the client still gets it. The chunk
// "ack" is sent when the prompt is stored. The notifier sends the answer, so it may come twice;
// a client reads until the first terminator.
package agentprotocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Config describes the agents. All fields are required.
type Config struct {
	// Name is the channel's. The session "main" is the conversation NAME-main.
	Name string
	// Agent, Owner and Sessions are tokens of the subjects.
	Agent, Owner string
	Sessions     []string
	// Version is the semantic version of the program.
	Version string
}

// Channel sends answers to the clients whose prompts wait for them.
type Channel struct {
	bus *bus.Bus
	cfg Config
}

// New returns the channel. Receive starts the agents.
func New(b *bus.Bus, cfg Config) (*Channel, error) {
	if len(cfg.Sessions) == 0 {
		return nil, errors.New("it has no session")
	}
	for _, token := range append([]string{cfg.Agent, cfg.Owner}, cfg.Sessions...) {
		if !tools.IsToken(token) {
			return nil, fmt.Errorf("%.80q: want a name of the form %s", token, tools.TokenForm)
		}
	}
	return &Channel{b, cfg}, nil
}

// chunk is a message to a client.
type chunk struct {
	Type string `json:"type"` // response, status or query
	Data any    `json:"data"`
}

// query is the data of a chunk that asks the user.
type query struct {
	ID           string `json:"id"`
	ReplySubject string `json:"reply_subject"`
	Prompt       string `json:"prompt"`
}

const (
	// maxOpen bounds how many clients of a session get keepalives.
	maxOpen = 256
	// maxChunk bounds the text of a chunk in bytes, below the smallest usual limit of a message.
	maxChunk = 48 << 10
	// maxError bounds the description of an error in bytes, as the protocol's own agents do.
	maxError = 200
	// flushTimeout is how long the server may take to confirm what was sent.
	flushTimeout = 10 * time.Second
)

// Send implements channel.Channel. The result of a prompt ends the stream of its client; what
// else the session says goes to the oldest prompt that is open.
func (c *Channel) Send(ctx context.Context, n channel.Notification) error {
	if !slices.Contains(c.cfg.Sessions, n.ChatID) {
		return consume.Reject("undeliverable", fmt.Errorf("the channel has no session %.80q", n.ChatID))
	}
	text := n.Text
	if n.Note != "" { // such as that the text was cut
		text += "\n(" + tools.EscapeLine(n.Note) + ")"
	}
	if inbox, ok := agents.MessageOf(n.Call); ok && c.bus.IsInbox(inbox) {
		return c.finish(ctx, inbox, text, n.IsError)
	}
	open, err := c.open(ctx, n.ChatID)
	switch {
	case err != nil:
		return err
	case len(open) == 0:
		return consume.Reject("undeliverable", errors.New("no client waits for an answer of this session"))
	case n.Approval != nil:
		return c.ask(ctx, open[0], n.ChatID, channel.ApprovalKey(n.Approval.Session, n.Approval.ID), text)
	}
	return c.respond(ctx, open[0], text)
}

// ShowDraft implements channel.DraftChannel: clients see which tool runs.
func (c *Channel) ShowDraft(ctx context.Context, session, _ string, draft channel.Draft) (string, error) {
	if draft.Status == "" {
		return "", nil
	}
	open, err := c.open(ctx, session)
	if err != nil || len(open) == 0 {
		return "", err
	}
	return "", c.publish(ctx, open[0], chunk{"status", draft.Status})
}

// RemoveDraft implements channel.DraftChannel. What was sent stays.
func (c *Channel) RemoveDraft(context.Context, string, string) error { return nil }

// ask sends a question whose answer goes to the subject of its key.
func (c *Channel) ask(ctx context.Context, inbox, session, key, text string) error {
	return c.publish(ctx, inbox, chunk{"query", query{ID: key, ReplySubject: c.subject("answer", session) + "." + key, Prompt: text}})
}

// respond sends a text in chunks.
func (c *Channel) respond(ctx context.Context, inbox, text string) error {
	for len(text) > 0 {
		part := text
		if len(text) > maxChunk {
			part = strings.ToValidUTF8(text[:maxChunk], "") // the next chunk begins with the rest of a cut character
		}
		if err := c.publish(ctx, inbox, chunk{"response", part}); err != nil {
			return err
		}
		text = text[len(part):]
	}
	return nil
}

// finish sends the last text and ends the stream, after an error if the run failed.
func (c *Channel) finish(ctx context.Context, inbox, text string, isError bool) error {
	if err := c.respond(ctx, inbox, text); err != nil {
		return err
	}
	if isError {
		if err := c.fail(inbox, "500", text); err != nil {
			return err
		}
	}
	return c.end(ctx, inbox)
}

// fail sends an error, which does not end the stream.
func (c *Channel) fail(inbox, code, description string) error {
	m := nats.NewMsg(inbox)
	m.Header.Set(micro.ErrorCodeHeader, code)
	m.Header.Set(micro.ErrorHeader, tools.Excerpt(tools.OneLine(description), maxError))
	return c.bus.Conn().PublishMsg(m)
}

// end sends the terminator: a message without a body and without headers.
func (c *Channel) end(ctx context.Context, inbox string) error {
	if err := c.bus.Conn().Publish(inbox, nil); err != nil {
		return err
	}
	return c.flush(ctx)
}

func (c *Channel) publish(ctx context.Context, subject string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := c.bus.Conn().Publish(subject, body); err != nil {
		return err
	}
	return c.flush(ctx)
}

// flush returns when the server has what was published.
func (c *Channel) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return c.bus.Conn().FlushWithContext(ctx)
}

// open returns the reply subjects of the prompts of a session that have not ended: the parked
// ones, then those that run or wait, oldest first. Listings of tasks have only tokens of ids, and
// a reply subject is longer.
func (c *Channel) open(ctx context.Context, session string) (inboxes []string, err error) {
	conversation := c.conversation(session)
	add := func(call tools.Call) error {
		inbox, ok := agents.MessageOf(call.ID)
		if !ok || call.Tool != agent.AgentTool || !c.bus.IsInbox(inbox) || slices.Contains(inboxes, inbox) {
			return nil
		}
		m, err := c.bus.Last(ctx, bus.Results, c.bus.Result(conversation, call.IDToken()))
		if err == nil && m.Sequence == 0 {
			inboxes = append(inboxes, inbox)
		}
		return err
	}
	parked, err := task.ListParked(ctx, c.bus, conversation)
	for _, p := range parked {
		err = errors.Join(err, add(p.Call))
	}
	if err != nil {
		return nil, err
	}
	for m, err := range c.bus.Read(ctx, bus.Calls, bus.Query{Subject: c.bus.Call("*", agent.AgentTool, conversation, "*")}) {
		if err != nil {
			return nil, err
		}
		call, err := tools.DecodeCall(m.Body)
		if err != nil {
			continue // the worker rejects it
		}
		if call.Tool = agent.AgentTool; len(inboxes) == maxOpen {
			break
		}
		if err := add(call); err != nil {
			return nil, err
		}
	}
	return inboxes, nil
}

// conversation returns the session of the agent, as a token.
func (c *Channel) conversation(session string) string {
	return tools.TokenOf(c.cfg.Name + "-" + session)
}

func (c *Channel) subject(verb, session string) string {
	return strings.Join([]string{"agents", verb, c.cfg.Agent, c.cfg.Owner, session}, ".")
}

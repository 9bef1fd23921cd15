package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const (
	entriesPerPage = 80
	entriesBytes   = 4 << 20
)

// storedEntry is an entry of a conversation as the agent wrote it.
type storedEntry struct {
	Sequence uint64          `json:"sequence"`
	Entry    json.RawMessage `json:"entry"`
	// Styled are the texts of the model, which writes Markdown, in the order of their blocks.
	Styled [][]markup.Run `json:"styled,omitempty"`
}

// styled returns the texts of a turn of the model. One with hidden characters is nil: the page shows
// these, and the parser would remove them.
func styled(entry json.RawMessage) (texts [][]markup.Run) {
	e, err := agent.DecodeEntry(entry)
	if err != nil || e.Kind != agent.KindAssistant || e.Message == nil {
		return nil
	}
	for _, b := range e.Message.Content {
		if b.Type != "text" || b.Text == "" {
			continue
		}
		var runs []markup.Run
		if markup.Clean(b.Text) == b.Text {
			runs = markup.Parse(b.Text).Runs()
		}
		texts = append(texts, runs)
	}
	return texts
}

// conversation is a page of a conversation, oldest first.
type conversation struct {
	Session string        `json:"session"`
	Name    string        `json:"name"` // for people
	Title   string        `json:"title"`
	Entries []storedEntry `json:"entries"`
	Next    uint64        `json:"next"`
}

var showSession = rpc.Define("showSession", "", "Show the newest entries of a conversation before a sequence.", func(ctx context.Context, env rpc.Env, in struct {
	Session string `json:"session"`
	Before  uint64 `json:"before"`
	After   uint64 `json:"after"`
}) (conversation, error) {
	page, size := conversation{Session: tools.TokenOf(in.Session), Entries: []storedEntry{}}, 0
	for m, err := range env.Bus.Read(ctx, bus.Sessions, bus.Back(env.Bus.Session(page.Session), in.Before)) {
		if err != nil {
			return page, err
		}
		if m.Sequence <= in.After {
			page.Next = m.Sequence
			break
		}
		entry := json.RawMessage(m.Body)
		if !json.Valid(m.Body) {
			entry = json.RawMessage(`{"kind":"unreadable"}`)
		}
		page.Entries = append(page.Entries, storedEntry{m.Sequence, entry, styled(entry)})
		if size += len(m.Body); len(page.Entries) >= entriesPerPage || size >= entriesBytes {
			page.Next = m.Sequence
			break
		}
	}
	var err error
	page.Title, page.Name, err = agents.Title(ctx, env.Bus, page.Session)
	return page, err
})

// message is a prompt for the agent, in a conversation.
type message struct {
	Session string `json:"session,omitempty"`
	Prompt  string `json:"prompt"`
	Model   string `json:"model,omitempty"` // a name of Worker.Models; empty means the first
	ID      string `json:"id,omitempty"`    // of the message; one that arrives again is not sent again
}

// sentMessage is the call that a message became.
type sentMessage struct {
	Session string `json:"session"`
	ID      string `json:"id"`
	Warning string `json:"warning,omitempty"`
}

var sendMessage = rpc.Define("sendMessage", "", "Send a message to the agent.", func(ctx context.Context, env rpc.Env, in message) (sent sentMessage, err error) {
	if strings.TrimSpace(in.Prompt) == "" {
		return sent, badArgument("the message is empty")
	}
	session, err := agents.NameOf(ctx, env.Bus, in.Session)
	if err != nil {
		return sent, err
	}
	id := "page-" + cmp.Or(in.ID, nuid.Next())
	in.Session, in.ID = "", ""
	args, err := bus.Encode(in)
	if err != nil {
		return sent, err
	}
	served, err := rpc.HasWorker(ctx, env.Bus, bus.AgentQueue, agent.AgentTool)
	switch {
	case errors.Is(err, task.ErrSilent):
		sent.Warning = "The message is stored, but no worker answers now, although a program listens. It waits until one does."
	case err != nil:
		return sent, err
	case !served:
		sent.Warning = "The message is stored, but no worker with a model is running. It waits until one starts."
	}
	call := tools.Call{ID: id, Session: session, Tool: agent.AgentTool, Args: args}
	sent.Session, sent.ID = call.SessionToken(), call.IDToken()
	_, err = rpc.Enqueue(ctx, env.Bus, bus.AgentQueue, call)
	return sent, err
}).Changing()

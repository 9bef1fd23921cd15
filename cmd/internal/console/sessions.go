package console

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const sessionsPerPage = 60

// sessions lists a page of the conversations, the one with the newest entry first. The
// parameter text searches in their messages.
func (c *Console) sessions(r *http.Request) (any, error) {
	before, err := sequence(r, "before")
	if err != nil {
		return nil, err
	}
	lines, next, err := agents.List(r.Context(), c.bus, agents.ListQuery{Text: r.URL.Query().Get("text"), Before: before, Limit: sessionsPerPage})
	if err != nil {
		return nil, err
	}
	return map[string]any{"sessions": lines, "next": next}, nil
}

// removeSession deletes a conversation and those of its sub-agents.
func (c *Console) removeSession(r *http.Request) (any, error) {
	return nil, agents.Remove(r.Context(), c.bus, r.PathValue("session"), false)
}

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
	var e struct {
		Kind    string `json:"kind"`
		Message struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal(entry, &e) != nil || e.Kind != "assistant" {
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

// session returns the newest entries of a conversation before a sequence, oldest first.
func (c *Console) session(r *http.Request) (any, error) {
	session := callOf(r).Session
	before, err := sequence(r, "before")
	if err != nil {
		return nil, err
	}
	after, err := sequence(r, "after")
	if err != nil {
		return nil, err
	}
	entries, size, next := []storedEntry{}, 0, uint64(0)
	for m, err := range c.bus.Read(r.Context(), bus.Sessions, bus.Back(c.bus.Session(session), before)) {
		if err != nil {
			return nil, err
		}
		if m.Sequence <= after {
			next = m.Sequence
			break
		}
		entry := json.RawMessage(m.Body)
		if !json.Valid(m.Body) {
			entry = json.RawMessage(`{"kind":"unreadable"}`)
		}
		entries = append(entries, storedEntry{m.Sequence, entry, styled(entry)})
		if size += len(m.Body); len(entries) >= entriesPerPage || size >= entriesBytes {
			next = m.Sequence
			break
		}
	}
	title, _, err := agents.Title(r.Context(), c.bus, session)
	return map[string]any{"session": session, "title": title, "entries": entries, "next": next}, err
}

// trace returns what a run of a conversation did; without a run, the last one.
func (c *Console) trace(r *http.Request) (any, error) {
	return agents.ReadTrace(r.Context(), c.bus, callOf(r).Session, r.URL.Query().Get("run"))
}

// sendMessage submits a prompt to the agent, in a conversation.
func (c *Console) sendMessage(r *http.Request) (any, error) {
	var in struct {
		Prompt string `json:"prompt"`
		Model  string `json:"model,omitempty"` // a name of Worker.Models; empty means the first
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return nil, badArgument("the message is empty")
	}
	args, err := bus.Encode(in)
	if err != nil {
		return nil, err
	}
	session, err := agents.NameOf(r.Context(), c.bus, r.PathValue("session"))
	if err != nil {
		return nil, err
	}
	served, err := rpc.HasWorker(r.Context(), c.bus, bus.AgentQueue, agent.AgentTool)
	if err != nil {
		return nil, err
	}
	call := tools.Call{ID: "page-" + nuid.Next(), Session: session, Tool: agent.AgentTool, Args: args}
	if _, err := rpc.Enqueue(r.Context(), c.bus, bus.AgentQueue, call); err != nil {
		return nil, err
	}
	answer := map[string]any{"session": call.SessionToken(), "id": call.IDToken()}
	if !served {
		answer["warning"] = "The message is stored, but no worker with a model is running. It waits until one starts."
	}
	return answer, nil
}

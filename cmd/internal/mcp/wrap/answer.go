package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// receive handles the messages of a process until it ends.
func (p *proxy) receive(ctx context.Context, c *connection) error {
	for {
		m, err := c.Receive()
		if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
			p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("line", tools.EscapeLine(tools.Excerpt(syntax.Text, 100))).Msg("MCP server wrote " +
				"a line that is not a message; it is dropped")
			p.notAMessage(syntax)
			continue
		}
		if size, ok := errors.AsType[*wire.SizeError](err); ok {
			p.tooLarge(size)
			continue
		}
		if failed, ok := errors.AsType[*RequestError](err); ok {
			p.requestFailed(failed)
			continue
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		c.heard = time.Now()
		p.mu.Unlock()
		switch {
		case m.IsResponse():
			p.fromServerResponse(ctx, c, m)
		case m.IsRequest():
			p.fromServerRequest(c, m)
		default:
			p.fromServerNotification(m)
		}
	}
}

// notAMessage answers the request whose response is not valid, so that it does not wait for another.
func (p *proxy) notAMessage(e *wire.SyntaxError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.pending[e.ID]; r != nil && !r.answered && !strings.Contains(e.Text, `"method"`) {
		p.failLocked(r, fmt.Sprintf("The MCP server %s answered %s with a message that is not valid JSON or is nested too deeply.%s",
			p.cfg.Name, r.name(), r.warning()))
	}
}

// tooLarge answers the request whose response is too large.
func (p *proxy) tooLarge(e *wire.SizeError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.pending[e.ID]; r != nil && !r.answered {
		p.failLocked(r, fmt.Sprintf("The MCP server %s answered %s with %d bytes, more than the %d MiB that a message may have. The "+
			"answer is lost; ask for less.%s", p.cfg.Name, r.name(), e.Size, wire.MaxMessage>>20, r.warning()))
		return
	}
	p.cfg.Log.Warn().Str("server", p.cfg.Name).Int64("bytes", e.Size).Msg("a message of the MCP server is too large; it is dropped")
}

// RequestError is an error of Link.Receive that concerns one message to the server.
type RequestError struct {
	// ID is the id of the request; it is empty for another message.
	ID       string
	Delivery Delivery
	Err      error
}

// Delivery is what became of a request that got no answer.
type Delivery int

const (
	// Unknown means that the server may have acted.
	Unknown Delivery = iota
	// Unsent means that the server did not accept the request.
	Unsent
	// Lost means that the server did not accept the request, and that the link ends: the
	// next one sends it again.
	Lost
	// Refused means that the server does not accept the request.
	Refused
)

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// maxLost is how often a request is sent in a new session. An error that only names a session, which the server answers each
// time, must not end all sessions, and with them the other calls.
const maxLost = 5

// requestFailed sends a request again, or answers it with an error. The other requests
// go on.
func (p *proxy) requestFailed(e *RequestError) {
	text := tools.Excerpt(tools.OneLine(e.Error()), 600)
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer, ok := p.internal[e.ID]; ok {
		delete(p.internal, e.ID)
		answer <- wire.ErrorResponse(e.ID, wire.CodeInternal, text)
		return
	}
	r := p.pending[e.ID]
	switch {
	case r == nil || r.answered:
		p.cfg.Log.Debug().Str("server", p.cfg.Name).Str("error", text).Msg("a message did not reach the MCP server")
	case e.Delivery == Lost && !r.cancelled && r.lost < maxLost:
		r.queued, r.attempts, r.lost = false, r.attempts-1, r.lost+1
	case e.Delivery == Unknown && p.repeatableLocked(r):
		p.queueLocked(r)
	case e.Delivery == Refused:
		p.failLocked(r, fmt.Sprintf("The MCP server %s refused %s: %s", p.cfg.Name, r.name(), text))
	case e.Delivery == Unknown:
		p.failLocked(r, fmt.Sprintf("The MCP server %s did not answer %s: %s.%s", p.cfg.Name, r.name(), text, r.warning()))
	default:
		p.failLocked(r, fmt.Sprintf("The MCP server %s cannot be reached, and %s was not run: %s", p.cfg.Name, r.name(), text))
	}
}

// maxFromServer is how many requests of the server may wait for the client's answer.
const maxFromServer = 1000

// fromServerRequest passes a request, such as an elicitation, to the client. A later
// process may use the ids of an earlier one again, so its ids are changed.
func (p *proxy) fromServerRequest(c *connection, m *wire.Message) {
	passed := m
	if c.generation > 1 {
		passed = m.With("id", wire.JSON(strconv.Itoa(c.generation)+"/"+m.ID))
	}
	p.mu.Lock()
	full := len(p.fromServer) >= maxFromServer
	if !full {
		p.fromServer[passed.ID] = serverRequest{m.ID, c.generation}
	}
	p.mu.Unlock()
	if full {
		c.send(wire.ErrorResponse(m.ID, wire.CodeInternal, "too many requests to the client are open"))
		return
	}
	p.toClient(passed)
}

// A host must not stall because its server has too much to say: of the notifications of
// progress and of logs, noteBurst pass at once, and then noteRate in a second.
const (
	noteBurst = 1000
	noteRate  = 200
)

// fromServerNotification passes a notification to the client.
func (p *proxy) fromServerNotification(m *wire.Message) {
	inBackground := false // the client waits for no progress of this call any more
	p.mu.Lock()
	switch m.Method {
	case "notifications/progress":
		for _, r := range p.pending {
			if r.token != "" && r.token == wire.IDOf(wire.Get(m.Params, "progressToken")) && r.timer != nil && !r.cancelled && !r.answered {
				r.progress = time.Now()
				r.timer.Reset(p.cfg.CallTimeout)
				inBackground = inBackground || r.job != nil
			}
		}
	case "notifications/tools/list_changed":
		p.listed = false
	case "notifications/cancelled": // the server withdraws a request of its own
		id := wire.IDOf(wire.Get(m.Params, "requestId"))
		for known, r := range p.fromServer {
			if r.id == id && r.generation == p.generation {
				m = m.With("params", wire.Set(m.Params, json.RawMessage(known), "requestId"))
				delete(p.fromServer, known)
				break
			}
		}
	}
	p.mu.Unlock()
	if inBackground {
		return
	}
	if m.Method != "notifications/progress" && m.Method != "notifications/message" || p.notes.Allow() {
		p.toClient(m)
	}
}

// progressGap is the time between the last progress of a request and its response. The
// TypeScript SDK loses progress that it reads together with the response.
const progressGap = 2 * time.Millisecond

// fromServerResponse passes the answer to a request of the client on, without its big
// parts.
func (p *proxy) fromServerResponse(ctx context.Context, c *connection, m *wire.Message) {
	p.mu.Lock()
	c.answered = true
	if answer, ok := p.internal[m.ID]; ok {
		delete(p.internal, m.ID)
		answer <- m
		p.mu.Unlock()
		return
	}
	r := p.pending[m.ID]
	if r == nil || r.answered || r.cancelled {
		if r != nil && r.cancelled {
			p.removeLocked(r)
		}
		p.mu.Unlock()
		return
	}
	r.answered = true
	r.timer.Stop()
	gap := time.Since(r.progress) < progressGap
	p.mu.Unlock()
	if !gap {
		p.answer(ctx, c, r, m)
		return
	}
	p.work.Go(func() { // the reader must not wait: many calls with progress may end at once
		time.Sleep(progressGap)
		p.answer(ctx, c, r, m)
	})
}

// answer passes the answer to r on, and does the long part of it beside the reader.
func (p *proxy) answer(ctx context.Context, c *connection, r *request, m *wire.Message) {
	if r.job != nil {
		p.work.Go(func() { p.finishJob(ctx, r, r.jobText(m)) })
		return
	}
	if r.Method == "initialize" || r.Method == "server/discover" {
		m = p.opened(r, m) // before the next message, which depends on it
	}
	if r.Method == "tools/call" && p.hosted.Load() == nil {
		m = readable(m)
	}
	p.noteTask(r, m)
	if r.Method != "tools/list" && p.showsAll(r, m) {
		p.toClient(m)
		p.remove(r)
		p.count(r, m.Result, m.Result)
		return
	}
	p.work.Go(func() { // the reader must go on: to respond may need another answer of the server
		defer p.remove(r)
		p.respond(ctx, c, r, m)
	})
}

// readable returns the result of a tool for a worker. A text replaces each block that the SDK cannot read, such as a picture that is not
// base64 or a block of a later revision: it would lose the whole result. The structured content becomes a string with its JSON: the SDK
// would round its numbers.
func readable(m *wire.Message) *wire.Message {
	content, odd := slices.Collect(wire.Elements(wire.Get(m.Result, "content"))), false
	for i, raw := range content {
		block := wire.ObjectOf(raw)
		if kind, _ := wire.Text(block.Get("type")); kind == "text" && wire.Kind(block.Get("text")) == '"' && len(block) == 2 {
			continue // to decode it would take its size again
		}
		if json.Unmarshal(wire.JSON(fields{"content": []json.RawMessage{raw}}), new(mcp.CallToolResult)) != nil {
			content[i], odd = wire.JSON(textBlock(string(raw))), true
		}
	}
	result := m.Result
	if odd {
		result = wire.Set(result, wire.Array(content), "content")
	}
	if structured := structuredOf(result); structured != nil {
		result = wire.Set(result, wire.JSON(string(structured)), "structuredContent")
	} else if !odd {
		return m
	}
	return m.With("result", result)
}

// showsAll reports whether the client gets all of a response: it is short, and within the budget
// of the session, for which its size in JSON counts. It notes in r if only the budget is the
// reason that it does not.
func (p *proxy) showsAll(r *request, m *wire.Message) bool {
	h := p.hosted.Load()
	if h == nil {
		return true
	}
	short := m.Size() <= h.shrinker.limit
	r.overBudget = short && r.Method == "tools/call" && !h.shrinker.offloader.FitsBudget(p.cfg.session, int(m.Size()))
	return short && !r.overBudget
}

// opened reads the server's capabilities and adds those of the proxy: the reading
// tools, and the artifacts as resources.
func (p *proxy) opened(r *request, m *wire.Message) *wire.Message {
	capabilities := wire.Get(m.Result, "capabilities")
	if m.Result == nil || capabilities != nil && wire.Kind(capabilities) != '{' {
		return m
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capabilities = maps.Collect(wire.Members(capabilities))
	if r.Method == "initialize" {
		p.initialize = r.Params
		name, _ := wire.Text(wire.Get(r.Params, "clientInfo", "name"))
		p.setClientLocked(name)
		version, _ := wire.Text(wire.Get(m.Result, "protocolVersion"))
		p.version = version // the client may have asked for a later one in server/discover before
	}
	h := p.hosted.Load()
	if capabilities == nil || h == nil {
		return m
	}
	added := wire.ObjectOf(capabilities)
	for _, name := range []string{"tools", "resources"} {
		if _, ok := p.capabilities[name]; !ok && (name == "tools" || !h.host.ResourceTools) {
			added = added.With(name, json.RawMessage("{}"))
		}
	}
	if p.lateLocked() {
		added = added.With("tools", wire.Set(added.Get("tools"), json.RawMessage("true"), "listChanged"))
	}
	return m.With("result", wire.Set(m.Result, added.Text(), "capabilities"))
}

// maxTasks is how many tasks the proxy remembers the tools of.
const maxTasks = 1000

// noteTask remembers the tool of a task, whose schema the result of the task must fit.
func (p *proxy) noteTask(r *request, m *wire.Message) {
	if r.Method != "tools/call" || m.Size() > 64<<10 {
		return
	}
	id, _ := wire.Text(wire.Get(m.Result, "taskId"))
	older, _ := wire.Text(wire.Get(m.Result, "task", "taskId")) // revision 2025-11-25
	if id = cmp.Or(id, older); id == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.taskTools) >= maxTasks {
		clear(p.taskTools) // their results are then shortened without a schema
	}
	p.taskTools[id] = r.tool
}

// respond stores the big parts of a response and sends the rest.
func (p *proxy) respond(ctx context.Context, c *connection, r *request, m *wire.Message) {
	var short json.RawMessage // nil if nothing changes
	var err error
	switch r.Method {
	case "tools/list":
		short = p.toolsListed(r, m.Result)
	case "tools/call", "tasks/result":
		short, err = p.shrinkCall(ctx, c, r, m.Result)
	case "tasks/get":
		if short, err = p.shrinkCall(ctx, c, r, wire.Get(m.Result, "result")); short != nil {
			short = wire.Set(m.Result, short, "result")
		}
	case "resources/read":
		short, err = p.hosted.Load().shrinker.resource(ctx, m.Result, r.uri, p.text)
	case "prompts/get":
		short, err = p.hosted.Load().shrinker.prompt(ctx, m.Result, p.text)
	}
	switch {
	case err != nil:
		p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("method", r.Method).Err(err).Msg("cannot handle a response")
		p.fail(r, fmt.Sprintf("The MCP server %s sent a response that the proxy cannot handle: %s", p.cfg.Name, tools.Excerpt(err.Error(), 300)))
	case short != nil:
		if r.Method != "tools/list" {
			p.offerReading(ctx)
		}
		p.toClient(m.With("result", short))
		p.noteListed(r)
		p.count(r, m.Result, short)
	default:
		p.toClient(m)
		p.count(r, m.Result, m.Result)
	}
}

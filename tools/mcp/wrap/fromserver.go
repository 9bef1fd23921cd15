package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// fromServerLink handles the messages of a process until it ends.
func (p *proxy) fromServerLink(ctx context.Context, c *connection) error {
	invalid := 0
	for {
		m, err := c.Receive()
		if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
			if invalid++; invalid <= 10 {
				p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("line", tools.EscapeLine(tools.Excerpt(syntax.Line, 100))).Msg("MCP server wrote a line that is not a message; it is dropped")
			}
			continue
		}
		if failed, ok := errors.AsType[*RequestError](err); ok {
			p.requestFailed(c, failed)
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
			p.fromServerNotification(ctx, m)
		}
	}
}

// maxFromServer is how many requests of the server may wait for the client's answer.
const maxFromServer = 1000

// fromServerRequest passes a request, such as an elicitation, to the client. A later
// process may use the ids of an earlier one again, so its ids are changed.
func (p *proxy) fromServerRequest(c *connection, m *wire.Message) {
	id := m.ID
	if c.generation > 1 {
		id = strconv.Quote(fmt.Sprintf("%d/%s", c.generation, m.ID))
		m = withID(m, id)
	}
	p.mu.Lock()
	full := len(p.fromServer) >= maxFromServer
	if !full {
		p.fromServer[id] = serverRequest{m.ID, c.generation}
	}
	p.mu.Unlock()
	if !full {
		p.toClient(m)
		return
	}
	m.Close()
	if refusal, err := wire.ErrorResponse(m.ID, wire.CodeInternal, "too many requests to the client are open", nil); err == nil {
		c.send(refusal)
	}
}

// fromServerNotification passes a notification to the client, unless there are too many.
func (p *proxy) fromServerNotification(ctx context.Context, m *wire.Message) {
	switch m.Method {
	case "notifications/progress":
		p.progressed(m)
	case "notifications/tools/list_changed":
		p.mu.Lock()
		p.listed = false
		p.mu.Unlock()
	case "notifications/cancelled":
		p.withdraw(m)
	}
	if p.flood.drop(m.Method, func() {
		if again, err := wire.Request("", m.Method, nil); err == nil && ctx.Err() == nil {
			p.toClient(again)
		}
	}) {
		m.Close()
		return
	}
	p.toClient(m)
}

// progressed gives a request more time.
func (p *proxy) progressed(m *wire.Message) {
	var params struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if m.Decode(m.Params, 64<<10, &params) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.pending {
		if r.token != "" && r.token == string(params.Token) && !r.cancelled {
			r.progress = time.Now()
			r.expires = r.progress.Add(p.cfg.CallTimeout)
		}
	}
}

// withdraw gives the server's cancellation of its own request the id that the client
// knows.
func (p *proxy) withdraw(m *wire.Message) {
	v, err := m.Get(m.Params, "requestId")
	if err != nil || !v.Exists() {
		return
	}
	raw, err := m.Bytes(v, 4<<10)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.fromServer {
		if r.id == string(raw) && r.generation == p.generation {
			m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(id)})
			delete(p.fromServer, id)
			return
		}
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
	r, ok := p.pending[m.ID]
	delete(p.pending, m.ID)
	if !ok || r.cancelled {
		p.mu.Unlock()
		m.Close()
		return
	}
	p.responding++
	p.mu.Unlock()
	if time.Since(r.progress) < progressGap {
		time.Sleep(progressGap)
	}
	if r.Method == "initialize" || r.Method == "server/discover" {
		p.opened(r, m) // before the next message, which depends on it
	}
	p.noteTask(r, m)
	if m.InMemory() && m.Size() <= p.shrinker.limit && r.Method != "tools/list" {
		p.toClient(m)
		r.Close()
		p.responded()
		return
	}
	p.work.Go(func() { // the reader must go on: to respond may need another answer of the server
		p.slots <- struct{}{}
		p.respond(ctx, c, r, m)
		<-p.slots
		p.responded()
	})
}

func (p *proxy) responded() {
	p.mu.Lock()
	p.responding--
	p.mu.Unlock()
}

// maxTasks is how many tasks the proxy remembers the tools of.
const maxTasks = 1000

// noteTask remembers the tool of a task, whose schema the result of the task must fit.
func (p *proxy) noteTask(r *request, m *wire.Message) {
	if r.Method != "tools/call" || m.Result.Kind != '{' || !m.InMemory() || m.Size() > 64<<10 {
		return
	}
	type task struct {
		ID string `json:"taskId"`
	}
	var result struct {
		task
		Task task `json:"task"` // revision 2025-11-25
	}
	if m.Decode(m.Result, 64<<10, &result) != nil {
		return
	}
	if id := cmp.Or(result.ID, result.Task.ID); id != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.taskTools) >= maxTasks {
			clear(p.taskTools) // their results are then shortened without a schema
		}
		p.taskTools[id] = r.tool
	}
}

// respond stores the big parts of a response and sends the rest.
func (p *proxy) respond(ctx context.Context, c *connection, r *request, m *wire.Message) {
	defer r.Close()
	var err error
	if m.Result.Kind == '{' {
		switch r.Method {
		case "tools/list":
			err = p.toolsListed(r, m)
		case "tools/call", "tasks/result":
			err = p.shrinkCall(ctx, c, r, m, m.Result)
		case "tasks/get":
			var result wire.Value
			if result, err = m.Get(m.Result, "result"); err == nil && result.Kind == '{' {
				err = p.shrinkCall(ctx, c, r, m, result)
			}
		case "resources/read":
			err = p.shrinker.resource(ctx, m, r.uri)
		case "prompts/get":
			err = p.shrinker.prompt(ctx, m)
		}
	}
	if err != nil {
		p.cfg.Log.Warn().Str("server", p.cfg.Name).Str("method", r.Method).Err(err).Msg("cannot handle a response")
		m.Close()
		p.fail(r, fmt.Sprintf("The MCP server %s sent a response that the proxy cannot handle: %s", p.cfg.Name, tools.Excerpt(err.Error(), 300)))
		return
	}
	p.toClient(m)
}

package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// proxy is the state of one client's session.
//
//	client  -> fromClient -> forward -> outbox -> server
//	client <- toClient  <- respond  <- fromServer <- server
type proxy struct {
	cfg      Config
	client   Link
	reader   *offload.Reader
	reading  *artifacts.Tools
	shrinker *shrinker
	flood    *flood
	demand   chan struct{} // a request waits for a server that is down
	slots    chan struct{} // limits the results that are stored at the same time
	work     sync.WaitGroup

	sending sync.Mutex // of client.Send

	mu         sync.Mutex
	ended      bool        // no work may start
	server     *connection // nil while the server is down
	generation int
	seq        int
	pending    map[string]*request           // requests of the client, by id
	responding int                           // responses of the server that are not sent on yet
	calls      map[string]context.CancelFunc // calls of reading tools, by id
	internal   map[string]chan *wire.Message // requests of the proxy, by id
	fromServer map[string]serverRequest      // requests of the server, by the id that the client knows

	// What a new process must be told, because the client told it the earlier one.
	initialize    json.RawMessage          // params; nil before the session is initialized
	initialized   bool                     // the client sent notifications/initialized
	level         *wire.Message            // the last logging/setLevel
	subscriptions map[string]*wire.Message // resources/subscribe by URI
	meta          json.RawMessage          // the last _meta with the client's capabilities

	version      string // the latest revision that the client is known to accept
	capabilities map[string]json.RawMessage
	known        map[string]toolInfo // the server's tools
	listed       bool                // known is complete
	taskTools    map[string]string   // the tools of tasks, by their ids
}

// request is a request of the client that the server has not answered.
type request struct {
	*wire.Message
	seq       int
	tool      string // of tools/call, or of the task of tasks/get
	uri       string // of resources/read
	token     string // the progress token
	firstPage bool   // of a list
	sent      bool   // to the current process, or in the queue to it
	attempts  int    // how often it was written
	written   time.Time
	unsent    int // how often the server did not accept it
	cancelled bool
	expires   time.Time
	progress  time.Time // when progress was last sent to the client
}

// serverRequest is a request of the server that the client has not answered.
type serverRequest struct {
	id         string // as the server knows it
	generation int
}

// toolInfo is what the proxy must know about a tool.
type toolInfo struct {
	repeatable   bool
	outputSchema json.RawMessage
}

func (p *proxy) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	serving := make(chan error, 1)
	go func() { serving <- p.serve(ctx) }()
	reading := make(chan error, 1)
	go func() { reading <- p.fromClient(ctx) }()
	go p.expire(ctx)

	var err error
	select {
	case err = <-serving: // the server cannot be started
		serving <- nil
	case err = <-reading:
		if errors.Is(err, io.EOF) {
			err = nil
		}
		p.drain(ctx)
	case <-ctx.Done():
	}
	cancel()
	<-serving
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.work.Wait()
	p.client.Close()
	return err
}

// startLocked runs f in the background, for goroutines that may live longer than run: after
// run has begun to wait for the work, it does nothing and returns false.
func (p *proxy) startLocked(f func()) bool {
	if !p.ended {
		p.work.Go(f)
	}
	return !p.ended
}

// After the client has closed its side, the server has drainTime to answer open
// requests, and the proxy has storeTime to send the answers on. Hosts that do not want
// to wait send SIGTERM, which ends ctx.
const (
	drainTime = 10 * time.Second
	storeTime = time.Minute
)

// drain waits until no request of the client is open.
func (p *proxy) drain(ctx context.Context) {
	for began := time.Now(); ctx.Err() == nil; {
		p.mu.Lock()
		open, responding := len(p.calls), p.responding
		for _, r := range p.pending {
			if !r.cancelled {
				open++
			}
		}
		p.mu.Unlock()
		waited := time.Since(began)
		if (open == 0 || waited > drainTime) && (responding == 0 || waited > storeTime) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// withID gives a message another id.
func withID(m *wire.Message, id string) *wire.Message {
	whole, err := m.Whole()
	if err != nil {
		return m
	}
	v, err := m.Get(whole, "id")
	if err == nil && v.Exists() {
		m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: []byte(id)})
	}
	return m
}

// toClient sends a message to the client and closes it. If the client is gone, its
// Receive fails, too, and ends the proxy.
func (p *proxy) toClient(m *wire.Message) {
	p.sending.Lock()
	defer p.sending.Unlock()
	defer m.Close()
	if err := p.client.Send(m); err != nil {
		p.cfg.Log.Debug().Err(err).Msg("cannot send to the client")
	}
}

// answer sends a result to the client.
func (p *proxy) answer(id string, result any) {
	m, err := wire.Response(id, result)
	if err != nil {
		p.reject(id, wire.CodeInternal, err.Error())
		return
	}
	p.toClient(m)
}

// reject sends an error to the client.
func (p *proxy) reject(id string, code int, message string) {
	if m, err := wire.ErrorResponse(id, code, message, nil); err == nil {
		p.toClient(m)
	}
}

// fail answers a request that the server cannot answer. A model sees the result of a
// tool, but not an error of the protocol.
func (p *proxy) fail(r *request, text string) {
	defer r.Close()
	if r.cancelled {
		return
	}
	if r.Method == "tools/call" {
		p.answer(r.ID, toolResult(tools.ErrorResult(text)))
		return
	}
	p.reject(r.ID, wire.CodeInternal, text)
}

// callResult is the result of tools/call.
type callResult struct {
	ResultType string `json:"resultType"`
	Content    []any  `json:"content"`
	IsError    bool   `json:"isError,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func toolResult(res *tools.Result) callResult {
	content := append([]any{textBlock{"text", res.ForLLM}}, artifacts.Media(res)...)
	return callResult{ResultType: "complete", Content: content, IsError: res.IsError}
}

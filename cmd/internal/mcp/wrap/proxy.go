package wrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// proxy is the state of one client's session.
//
//	client  -> fromClient -> queue -> write  -> server
//	client <- toClient  <- respond <- fromServer <- server
type proxy struct {
	cfg    Config
	client Link
	hosted atomic.Pointer[hosted] // nil without a store
	notes  *rate.Limiter
	demand chan struct{} // a request waits for a server that is down
	work   sync.WaitGroup

	sending sync.Mutex // of client.Send

	mu         sync.Mutex
	ended      bool        // no work may start
	server     *connection // nil while the server is down
	generation int
	seq        int
	pending    map[string]*request           // requests of the client, by id
	internal   map[string]chan *wire.Message // requests of the proxy, by id
	fromServer map[string]serverRequest      // requests of the server, by the id that the client knows

	// What a new process must be told, because the client told it the earlier one.
	initialize  json.RawMessage          // params; nil before the session is initialized
	initialized bool                     // the client sent notifications/initialized
	replay      map[string]*wire.Message // the last logging/setLevel, and resources/subscribe by URI
	meta        json.RawMessage          // the last _meta with the client's capabilities

	version      string // the latest revision that the client is known to accept
	clientName   string
	capabilities map[string]json.RawMessage
	known        map[string]toolInfo // the server's tools
	listed       bool                // known is complete
	taskTools    map[string]string   // the tools of tasks, by their ids
	relisted     chan struct{}       // nil until the client is told of late tools; closed when it has listed them
}

// request is a request of the client that is not answered.
type request struct {
	*wire.Message
	seq        int
	tool       string             // of tools/call, or of the task of tasks/get
	uri        string             // of resources/read
	token      string             // the progress token
	version    string             // of the protocol, if the request names it
	firstPage  bool               // of a list
	stop       context.CancelFunc // ends the work of the proxy; nil for a request to the server
	job        *job               // the client was told to wait
	timer      *time.Timer        // ends the request
	patience   *time.Timer        // moves it to the background; nil if none does
	queued     bool               // for the current process
	answered   bool               // the answer is being sent
	overBudget bool               // its result is short, but the session got too many of them
	cancelled  bool
	attempts   int // how often it was written
	lost       int // how often the server had forgotten its session
	written    time.Time
	progress   time.Time // when progress was last sent to the client
}

// name says what a request does.
func (r *request) name() string { return cmp.Or(r.tool, r.Method) }

// harmless are the methods that may be repeated. A method of an extension may act.
var harmless = []string{
	"initialize", "server/discover", "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read",
	"resources/subscribe", "resources/unsubscribe", wire.MethodListen, "prompts/list", "prompts/get", "completion/complete",
	"logging/setLevel", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel",
}

// mayAct reports whether a request may have an effect.
func (r *request) mayAct() bool { return !slices.Contains(harmless, r.Method) }

// warning is what the model must know about a request whose fate is unknown.
func (r *request) warning() string {
	if r.mayAct() {
		return " It may have acted; check the effect before you repeat it."
	}
	return ""
}

// serverRequest is a request of the server that the client has not answered.
type serverRequest struct {
	id         string // as the server knows it
	generation int
}

func (p *proxy) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	serving := make(chan error, 1)
	go func() { serving <- p.serve(ctx) }()
	reading := make(chan error, 1)
	go func() { reading <- p.fromClient(ctx) }()

	var err error
	select {
	case err = <-serving: // the server cannot be started
		serving <- nil
	case err = <-reading:
		if errors.Is(err, io.EOF) {
			err = nil
		}
	case <-ctx.Done():
	}
	cancel()
	<-serving
	p.mu.Lock()
	p.ended = true
	for _, r := range p.pending {
		if r.job != nil && !r.answered {
			p.lose(r.job, fmt.Sprintf("%s ended with the session of its call.%s", r.name(), r.warning()))
		}
		p.removeLocked(r)
	}
	p.mu.Unlock()
	p.work.Wait()
	p.client.Close()
	return err
}

// startLocked runs f in the background. After run has begun to wait for the work, it does
// nothing.
func (p *proxy) startLocked(f func()) {
	if !p.ended {
		p.work.Go(f)
	}
}

func (p *proxy) removeLocked(r *request) {
	if p.pending[r.ID] == r {
		delete(p.pending, r.ID)
	}
	for _, timer := range []*time.Timer{r.timer, r.patience} {
		if timer != nil {
			timer.Stop()
		}
	}
}

func (p *proxy) remove(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(r)
}

// failLocked removes a request and answers it with an error.
func (p *proxy) failLocked(r *request, text string) {
	p.removeLocked(r)
	p.startLocked(func() { p.fail(r, text) })
}

// toClient sends a message to the client. If the client is gone, its Receive fails, too,
// and ends the proxy.
func (p *proxy) toClient(m *wire.Message) {
	p.sending.Lock()
	defer p.sending.Unlock()
	if err := p.client.Send(m); err != nil {
		p.cfg.Log.Debug().Err(err).Msg("cannot send to the client")
	}
}

// fail answers a request that the server cannot answer. A model sees the result of a
// tool, but not an error of the protocol.
func (p *proxy) fail(r *request, text string) {
	switch {
	case r.cancelled:
	case r.job != nil:
		p.finishJob(context.Background(), r, text)
	case r.Method == "tools/call":
		p.toClient(wire.Response(r.ID, r.toolResult(tools.ErrorResult(text))))
	default:
		p.toClient(wire.ErrorResponse(r.ID, wire.CodeInternal, text))
	}
}

// fields are the members of a result of the proxy.
type fields map[string]any

// result adds what revision 2026-07-28 wants of a result; of a list or a resource it also
// wants to know how long it is valid. Clients of earlier revisions do not get it.
func (r *request) result(f fields) fields {
	if r.version < wire.Stateless {
		return f
	}
	f["resultType"] = "complete"
	if r.Method != "tools/call" {
		f["ttlMs"], f["cacheScope"] = 0, "private"
	}
	return f
}

// toolResult returns a result for tools/call.
func (r *request) toolResult(res *tools.Result) fields {
	f := fields{"content": append([]any{textBlock(res.ForLLM)}, artifacts.Media(res)...)}
	if res.IsError {
		f["isError"] = true
	}
	return r.result(f)
}

func textBlock(text string) any { return map[string]string{"type": "text", "text": text} }

package wrap

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// HTTP is a Link to a server at a URL (streamable HTTP).
type HTTP struct {
	url     string
	header  http.Header
	setting string // of the credential
	client  *http.Client
	ctx     context.Context // of all requests
	cancel  context.CancelCauseFunc
	in      chan received
	once    sync.Once

	mu      sync.Mutex
	session string
	version string // of an initialized session
	listens bool
	cancels map[string]context.CancelFunc // requests of revisions without sessions, by id
	params  map[string][]paramHeader      // by tool
}

type received struct {
	m   *wire.Message
	err error
}

// NewHTTP returns a link to the server at url. header is added to each request, and is
// not sent to another server if the server redirects. setting is what sets the header,
// for the error if the server refuses the credential.
func NewHTTP(url string, header http.Header, setting string) *HTTP {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &HTTP{
		url: url, header: header, setting: setting, ctx: ctx, cancel: cancel, in: make(chan received, 16),
		cancels: map[string]context.CancelFunc{}, params: map[string][]paramHeader{},
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Receive implements Link.
func (h *HTTP) Receive() (*wire.Message, error) {
	select {
	case r := <-h.in:
		return r.m, r.err
	case <-h.ctx.Done():
	}
	select {
	case r := <-h.in: // what arrived before the end
		return r.m, r.err
	default:
		return nil, context.Cause(h.ctx)
	}
}

func (h *HTTP) receive(r received) {
	select {
	case h.in <- r:
	case <-h.ctx.Done():
	}
}

var errClosed = errors.New("the connection was closed")

// Close implements Link. It ends the session on the server.
func (h *HTTP) Close() {
	h.once.Do(func() {
		h.mu.Lock()
		session := h.session
		h.mu.Unlock()
		h.cancel(errClosed)
		if session == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if res, err := h.do(ctx, http.MethodDelete, nil, nil, ""); err == nil {
			res.Body.Close()
		}
	})
}

// noteTimeout is how long the server may take to accept a notification or a response.
// The messages behind it wait.
const noteTimeout = 30 * time.Second

// Send implements Link. It waits for the end of a notification's or a response's
// delivery, so that these stay in order; requests run side by side. It returns no
// error: Receive says which message failed.
func (h *HTTP) Send(m *wire.Message) error {
	if !m.IsRequest() {
		if m.Method == "notifications/cancelled" && h.cancelRequest(m) {
			return nil
		}
		ctx, cancel := context.WithTimeout(h.ctx, noteTimeout)
		defer cancel()
		h.failed(m, h.post(ctx, m))
		return nil
	}
	ctx, cancel := context.WithCancel(h.ctx)
	if readRouting(m).version >= wire.Stateless {
		h.mu.Lock()
		h.cancels[m.ID] = cancel
		h.mu.Unlock()
	}
	go func() { // ends with the link
		defer cancel()
		err := h.insist(ctx, m)
		h.mu.Lock()
		delete(h.cancels, m.ID)
		h.mu.Unlock()
		if ctx.Err() == nil {
			h.failed(m, err)
		}
	}()
	return nil
}

// cancelRequest ends the stream of a request, which is how revisions without sessions
// cancel.
func (h *HTTP) cancelRequest(m *wire.Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	cancel, ok := h.cancels[wire.IDOf(wire.Get(m.Params, "requestId"))]
	if ok {
		cancel()
	}
	return ok
}

// insist sends a request again that the server did not accept now, for about 6 seconds.
func (h *HTTP) insist(ctx context.Context, m *wire.Message) error {
	policy := retry.Pauses(100*time.Millisecond, time.Minute, 6*time.Second)
	return backoff.Retry(func() error {
		err := h.post(ctx, m)
		if err != nil && deliveryOf(err) != Unsent {
			err = backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx))
}

func deliveryOf(err error) Delivery {
	if status, ok := errors.AsType[*RequestError](err); ok {
		return status.Delivery
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return Unsent
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return Refused
	}
	return Unknown
}

// failed makes Receive return the error of a message. A lost session ends the link.
func (h *HTTP) failed(m *wire.Message, err error) {
	if err == nil {
		return
	}
	if size, ok := errors.AsType[*wire.SizeError](err); ok && m.IsRequest() {
		h.receive(received{err: &wire.SizeError{ID: m.ID, Size: size.Size}})
		return
	}
	e, ok := errors.AsType[*RequestError](err)
	if !ok {
		e = &RequestError{Delivery: deliveryOf(err), Err: err}
	}
	for inner := errors.Unwrap(err); inner != nil && strings.Contains(e.Err.Error(), "://"); inner = errors.Unwrap(inner) {
		e.Err = inner // without the URL, which may contain a secret
	}
	if m.IsRequest() {
		e.ID = m.ID
	}
	lost, cause := e.Delivery == Lost, e.Err // what receives e may change it
	h.receive(received{err: e})
	if lost {
		h.cancel(cause) // the end of the link, not of one message
	}
}

// do sends a request. version is empty for that of the session.
func (h *HTTP) do(ctx context.Context, method string, body []byte, header http.Header, version string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, h.header)
	maps.Copy(req.Header, header)
	h.mu.Lock()
	version = cmp.Or(version, h.version)
	if h.session != "" {
		req.Header.Set("Mcp-Session-Id", h.session)
	}
	h.mu.Unlock()
	if version != "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	return h.client.Do(req)
}

// post sends a message and handles the answer.
func (h *HTTP) post(ctx context.Context, m *wire.Message) error {
	r := readRouting(m)
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if r.version >= wire.Stateless && m.IsRequest() {
		header.Set("Mcp-Method", m.Method)
		if r.name != "" {
			header.Set("Mcp-Name", headerValue(r.name))
		}
		if m.Method == "tools/call" {
			h.setParams(header, m, r.name)
		}
	}
	res, err := h.do(ctx, http.MethodPost, m.Text(), header, r.version)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	h.mu.Lock()
	known := h.session != "" && m.Method != "initialize"
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && m.Method == "initialize" {
		h.session = id
	}
	h.mu.Unlock()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode >= 300:
		return h.status(res, m, known)
	case kind == "text/event-stream" && m.IsRequest():
		return h.stream(ctx, m, res.Body)
	case kind == "application/json" && m.IsRequest():
		var body wire.Buffer
		if _, err := io.Copy(&body, res.Body); err != nil {
			return err
		}
		messages, err := body.Messages()
		if _, syntax := errors.AsType[*wire.SyntaxError](err); syntax {
			return fmt.Errorf("its answer is not a message: %v", err)
		}
		if err == nil && !h.deliver(m, messages) {
			return errors.New("its answer is for another request")
		}
		return err
	case m.IsRequest():
		return fmt.Errorf("the server answered with the status %s and no response", res.Status)
	case m.Method == "notifications/initialized":
		h.listen()
	}
	return nil
}

// deliver passes messages to Receive, and reports whether one of them answers request.
func (h *HTTP) deliver(request *wire.Message, messages []*wire.Message) (answered bool) {
	for _, m := range messages {
		if request != nil && m.IsResponse() && m.ID == request.ID {
			answered = true
			switch request.Method {
			case "initialize":
				version, _ := wire.Text(wire.Get(m.Result, "protocolVersion"))
				h.mu.Lock()
				h.version = version
				h.mu.Unlock()
			case "tools/list":
				h.learnHeaders(m.Result)
			}
		}
		h.receive(received{m: m})
	}
	return answered
}

// status handles a status that says that the request failed. The body may be the
// response.
func (h *HTTP) status(res *http.Response, m *wire.Message, session bool) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	answer, parseErr := wire.Parse(body)
	text := fmt.Sprintf("it answered with the status %s", res.Status)
	if head := tools.OneLine(strings.ToValidUTF8(string(body[:min(len(body), 300)]), "?")); head != "" {
		text += ": " + head
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden, res.StatusCode == http.StatusProxyAuthRequired:
		if len(h.header) == 0 {
			text += "; it wants a credential; set it with " + h.setting
		} else {
			text += "; check the credential, which " + h.setting + " sets"
		}
	case session && (res.StatusCode == http.StatusNotFound ||
		res.StatusCode == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("session"))): // as many servers answer after a restart
		return &RequestError{Delivery: Lost, Err: errors.New("the server has forgotten the session: " + text)}
	case parseErr == nil && m.IsRequest() && answer.Error != nil && answer.ID == m.ID:
		h.deliver(m, []*wire.Message{answer})
		return nil
	case res.StatusCode == http.StatusNotFound && !m.IsRequest():
		return nil
	case res.StatusCode == http.StatusTooManyRequests:
		return &RequestError{Delivery: Unsent, Err: errors.New(text)}
	case res.StatusCode >= 500:
		return &RequestError{Delivery: Unknown, Err: errors.New(text)}
	}
	return &RequestError{Delivery: Refused, Err: errors.New(text)}
}

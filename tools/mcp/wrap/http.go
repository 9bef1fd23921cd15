package wrap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
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

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
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
	work    sync.WaitGroup
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
		url: url, header: header, setting: setting, ctx: ctx, cancel: cancel, in: make(chan received, 16), cancels: map[string]context.CancelFunc{}, params: map[string][]paramHeader{},
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
		if req, err := h.request(ctx, http.MethodDelete, nil, ""); err == nil {
			if res, err := h.client.Do(req); err == nil {
				res.Body.Close()
			}
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
	meta := readRouting(m)
	if !m.IsRequest() {
		if m.Method == "notifications/cancelled" && h.cancelRequest(m) {
			return nil
		}
		ctx, cancel := context.WithTimeout(h.ctx, noteTimeout)
		defer cancel()
		h.failed(ctx, m, h.post(ctx, m, meta))
		return nil
	}
	ctx, cancel := context.WithCancel(h.ctx)
	if meta.version >= stateless {
		h.mu.Lock()
		h.cancels[m.ID] = cancel
		h.mu.Unlock()
	}
	h.work.Go(func() {
		defer cancel()
		err := h.post(ctx, m, meta)
		h.mu.Lock()
		delete(h.cancels, m.ID)
		h.mu.Unlock()
		if ctx.Err() == nil {
			h.failed(ctx, m, err)
		}
	})
	return nil
}

// failed makes Receive return the error of a message. A lost session ends the link.
func (h *HTTP) failed(ctx context.Context, m *wire.Message, err error) {
	if err == nil {
		return
	}
	e := &RequestError{Err: withoutURL(err)}
	if status, ok := errors.AsType[*statusError](err); ok {
		e.Fate = status.fate
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		e.Fate = Unsent
	} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.Fate = Refused
	}
	if m.IsRequest() {
		e.ID = m.ID
	}
	select {
	case h.in <- received{err: e}:
	case <-h.ctx.Done():
	}
	if errors.Is(err, errSessionLost) {
		h.cancel(errSessionLost)
	}
}

// withoutURL removes the URL from an error, because it may contain a secret.
func withoutURL(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.Contains(err.Error(), "://") {
			return err
		}
		err = inner
	}
}

// cancelRequest ends the stream of a request, which is how these revisions cancel.
func (h *HTTP) cancelRequest(m *wire.Message) bool {
	var params struct {
		ID json.RawMessage `json:"requestId"`
	}
	if m.Decode(m.Params, 64<<10, &params) != nil {
		return false
	}
	h.mu.Lock()
	cancel, ok := h.cancels[string(params.ID)]
	h.mu.Unlock()
	if ok {
		cancel()
	}
	return ok
}

func (h *HTTP) request(ctx context.Context, method string, body io.Reader, version string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.url, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, h.header)
	h.mu.Lock()
	defer h.mu.Unlock()
	if version == "" {
		version = h.version
	}
	if version != "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	if h.session != "" {
		req.Header.Set("Mcp-Session-Id", h.session)
	}
	return req, nil
}

// post sends a message and handles the answer.
func (h *HTTP) post(ctx context.Context, m *wire.Message, r routing) error {
	var body bytes.Buffer
	var src io.Reader = &body
	if m.InMemory() {
		if err := m.WriteEdited(&body, m.Edits); err != nil {
			return err
		}
	} else {
		pr, pw := io.Pipe()
		defer pr.Close()
		h.work.Go(func() { pw.CloseWithError(m.WriteEdited(pw, m.Edits)) })
		src = pr
	}
	req, err := h.request(ctx, http.MethodPost, src, r.version)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r.version >= stateless && m.IsRequest() {
		req.Header.Set("Mcp-Method", m.Method)
		if r.name != "" {
			req.Header.Set("Mcp-Name", headerValue(r.name))
		}
		if m.Method == "tools/call" {
			h.setParams(req.Header, m, r.name)
		}
	}
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && m.Method == "initialize" {
		h.mu.Lock()
		h.session = id
		h.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err := h.refused(res, m); err != nil {
		return err
	}
	switch {
	case kind == "text/event-stream" && res.StatusCode == http.StatusOK:
		var resume wire.Resume
		answered, err := h.events(res.Body, m, &resume)
		if answered || !m.IsRequest() {
			return nil
		}
		return h.resume(ctx, m, r, resume, err)
	case kind == "application/json" && m.IsRequest():
		return h.single(res, m)
	case res.StatusCode >= 300 && !(res.StatusCode == http.StatusNotFound && !m.IsRequest()):
		return h.status(res, m, res.Body)
	case m.IsRequest():
		return fmt.Errorf("the server answered with the status %s and no response", res.Status)
	}
	if m.Method == "notifications/initialized" {
		h.listen()
	}
	return nil
}

package wrap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
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

	"github.com/stevedore-bus/stevedore/tools"
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

// stateless is the first revision without sessions.
const stateless = "2026-07-28"

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

// routing is what the headers of a request repeat of its body.
type routing struct{ version, name string }

func readRouting(m *wire.Message) (r routing) {
	if m.Params.Kind != '{' {
		return r
	}
	if v, err := m.Get(m.Params, "_meta"); err == nil && v.Kind == '{' {
		if v, err := m.Get(v, "io.modelcontextprotocol/protocolVersion"); err == nil && v.Kind == '"' {
			r.version, _ = m.Text(v, 100)
		}
	}
	key := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[m.Method]
	if v, err := m.Get(m.Params, key); key != "" && err == nil && v.Kind == '"' {
		r.name, _ = m.Text(v, 8<<10)
	}
	return r
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

// statusError is an HTTP status that is no answer.
type statusError struct {
	fate Fate
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

var errSessionLost = errors.New("the server has forgotten the session")

// refused returns why the server did not look at a message: it knows neither the
// credential nor the session.
func (h *HTTP) refused(res *http.Response, m *wire.Message) error {
	h.mu.Lock()
	session := h.session
	h.mu.Unlock()
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		err := h.status(res, m, res.Body)
		hint := "check the credential, which " + h.setting + " sets"
		if len(h.header) == 0 {
			hint = "it wants a credential; set it with " + h.setting
		}
		return &statusError{Refused, fmt.Errorf("%w; %s", err, hint)}
	case http.StatusNotFound:
		if session != "" && m.Method != "initialize" {
			return &statusError{Unsent, errSessionLost}
		}
	case http.StatusBadRequest: // many servers forget their sessions when they restart, and answer so
		if session != "" && m.Method != "initialize" {
			head, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
			if bytes.Contains(bytes.ToLower(head), []byte("session")) {
				return &statusError{Unsent, errSessionLost}
			}
			res.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(head), res.Body), res.Body}
		}
	}
	return nil
}

// status returns a status as an error.
func (h *HTTP) status(res *http.Response, m *wire.Message, body io.Reader) error {
	head, _ := io.ReadAll(io.LimitReader(body, 300))
	fate := Unknown
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		fate = Unsent
	case res.StatusCode < 500:
		fate = Refused
	}
	text := tools.OneLine(strings.ToValidUTF8(string(head), "?"))
	if text == "" {
		return &statusError{fate, fmt.Errorf("it answered with the status %s", res.Status)}
	}
	return &statusError{fate, fmt.Errorf("it answered with the status %s: %s", res.Status, text)}
}

// maxResumes is how often the stream of a request is resumed.
const maxResumes = 100

// resume asks for the rest of a stream that ended before the response to m.
func (h *HTTP) resume(ctx context.Context, m *wire.Message, r routing, from wire.Resume, err error) error {
	for range maxResumes {
		if from.ID == "" || ctx.Err() != nil {
			break
		}
		pause := from.Retry
		if pause == 0 {
			pause = time.Second
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, time.Minute)):
		}
		answered, resumeErr := h.rest(ctx, m, r, &from)
		if answered {
			return nil
		}
		if err = resumeErr; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
	}
	if err == nil {
		err = errors.New("its stream ended before the response")
	}
	return err
}

func (h *HTTP) rest(ctx context.Context, m *wire.Message, r routing, from *wire.Resume) (answered bool, err error) {
	req, err := h.request(ctx, http.MethodGet, nil, r.version)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", from.ID)
	res, err := h.client.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("its stream ended before the response, and it does not resume the stream (%s)", res.Status)
	}
	return h.events(res.Body, m, from)
}

// headerValue encodes a name that is not plain text.
func headerValue(name string) string {
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
		}
	}
	if name == "" || strings.TrimSpace(name) != name || strings.HasPrefix(name, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	return name
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

// single handles a body that is one message.
func (h *HTTP) single(res *http.Response, request *wire.Message) error {
	var c wire.Collector
	defer c.Close()
	if _, err := io.Copy(&c, res.Body); err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		body := c.Body()
		m, err := wire.Parse(body)
		if err == nil && m.Error.Exists() && m.ID == request.ID {
			h.deliver(m, request)
			return nil
		}
		defer body.Close()
		return h.status(res, request, io.NewSectionReader(body, 0, body.Size()))
	}
	body := c.Body()
	messages, err := wire.ParseAll(body)
	if err != nil {
		body.Close()
		return fmt.Errorf("its answer is not a message: %w", err)
	}
	answered := false
	for _, m := range messages {
		answered = answered || m.IsResponse() && m.ID == request.ID
		h.deliver(m, request)
	}
	if !answered {
		return errors.New("its answer is for another request")
	}
	return nil
}

// deliver passes a message to Receive.
func (h *HTTP) deliver(m *wire.Message, request *wire.Message) {
	if request != nil && request.Method == "initialize" && m.IsResponse() && m.Result.Kind == '{' {
		if v, err := m.Get(m.Result, "protocolVersion"); err == nil && v.Kind == '"' {
			version, _ := m.Text(v, 100)
			h.mu.Lock()
			h.version = version
			h.mu.Unlock()
		}
	}
	if request != nil && request.Method == "tools/list" && m.IsResponse() && m.Result.Kind == '{' {
		h.learnHeaders(m)
	}
	select {
	case h.in <- received{m: m}:
	case <-h.ctx.Done():
		m.Close()
	}
}

// events handles a stream of events. It reports whether it contained the response to
// request.
func (h *HTTP) events(src io.Reader, request *wire.Message, resume *wire.Resume) (answered bool, err error) {
	err = wire.Events(src, resume, func(body *wire.Body) {
		messages, err := wire.ParseAll(body)
		if err != nil {
			body.Close()
			select {
			case h.in <- received{err: &wire.SyntaxError{Line: "an event", Err: err}}:
			case <-h.ctx.Done():
			}
			return
		}
		for _, m := range messages {
			if request != nil && m.IsResponse() && m.ID == request.ID {
				answered = true
			}
			h.deliver(m, request)
		}
	})
	if answered {
		err = nil
	}
	return answered, err
}

// listen receives the messages that belong to no request, if the server sends any.
func (h *HTTP) listen() {
	h.mu.Lock()
	started := h.listens
	h.listens = true
	h.mu.Unlock()
	if started {
		return
	}
	h.work.Go(func() {
		for pause := time.Second; h.ctx.Err() == nil; pause = min(2*pause, 30*time.Second) {
			req, err := h.request(h.ctx, http.MethodGet, nil, "")
			if err != nil {
				return
			}
			req.Header.Set("Accept", "text/event-stream")
			res, err := h.client.Do(req)
			if err == nil {
				if res.StatusCode != http.StatusOK {
					res.Body.Close()
					return // the server has nothing to say
				}
				_, _ = h.events(res.Body, nil, new(wire.Resume))
				res.Body.Close()
				pause = time.Second
			}
			select {
			case <-h.ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

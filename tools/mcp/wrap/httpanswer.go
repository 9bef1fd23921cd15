package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

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

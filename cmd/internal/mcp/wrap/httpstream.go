package wrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// maxResumes is how often the stream of a request is resumed.
const maxResumes = 100

// stream handles the stream of a request, and asks for its rest if it ends before the
// response.
func (h *HTTP) stream(ctx context.Context, m *wire.Message, body io.Reader) error {
	var resume wire.Resume
	answered, err := h.events(m, body, &resume)
	for range maxResumes {
		if answered || resume.ID == "" || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if tools.Sleep(ctx, min(cmp.Or(resume.Retry, time.Second), time.Minute)) != nil {
			return ctx.Err()
		}
		res, doErr := h.do(ctx, http.MethodGet, nil, http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {resume.ID}}, readRouting(m).version)
		if doErr != nil { // of a connection that does not begin, too: the server has the request
			return &RequestError{Delivery: Unknown, Err: doErr}
		}
		if res.StatusCode != http.StatusOK {
			err = fmt.Errorf("its stream ended before the response, and it does not resume the stream (%s)", res.Status)
		} else {
			answered, err = h.events(m, res.Body, &resume)
		}
		res.Body.Close()
	}
	if err == nil && !answered {
		err = errors.New("its stream ended before the response")
	}
	return err
}

// events handles a stream of events. It reports whether it contained the response to
// request.
func (h *HTTP) events(request *wire.Message, src io.Reader, resume *wire.Resume) (answered bool, err error) {
	err = wire.Events(src, resume, func(messages []*wire.Message, err error) {
		if size, ok := errors.AsType[*wire.SizeError](err); ok && request != nil && (size.ID == request.ID || size.ID == "") {
			err, answered = &wire.SizeError{ID: request.ID, Size: size.Size}, true
		}
		if err != nil {
			h.receive(received{err: err})
		}
		answered = h.deliver(request, messages) || answered
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
	go func() { // ends with the link
		policy, opened := retry.Pauses(time.Second, 30*time.Second, 0), false
		_ = backoff.Retry(func() error {
			res, err := h.do(h.ctx, http.MethodGet, nil, http.Header{"Accept": {"text/event-stream"}}, "")
			if err != nil {
				return err
			}
			defer res.Body.Close()
			switch code := res.StatusCode; {
			case code == http.StatusTooManyRequests, code >= 500 && code != http.StatusNotImplemented: // perhaps of a proxy before it
				return errors.New(res.Status)
			case code == http.StatusNotFound && opened: // it was started again; otherwise nobody notices before the next request
				h.cancel(errors.New("the server has forgotten the session: it answered with the status " + res.Status))
				return nil
			case code != http.StatusOK:
				return nil // the server has nothing to say
			}
			opened = true
			policy.Reset()
			_, err = h.events(nil, res.Body, new(wire.Resume))
			return errors.Join(err, io.EOF) // listen again
		}, backoff.WithContext(policy, h.ctx))
	}()
}

package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

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

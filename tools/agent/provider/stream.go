package provider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// turn collects the events of a streamed response.
type turn interface {
	// add takes one event, or a whole answer. counts is false if the event only keeps the connection
	// alive. The error is a *agent.ProviderError, unless the event cannot be decoded.
	add(event sseEvent, header http.Header) (counts bool, err error)
	// ended reports that the server sent the last event, so nothing follows.
	ended() bool
	// response returns the turn. complete is false if a part is missing, and started
	// is false if no event belonged to the API.
	response() (res agent.Response, complete, started bool)
}

// errEnded stops the reading of a stream after its last event.
var errEnded = errors.New("the stream ended")

// readStream reads a streamed response. A turn that is complete is an answer, whatever
// happens to the connection afterwards: to ask for it again would cost its price again.
func readStream(body *bufio.Reader, header http.Header, watch *watchdog, t turn) (agent.Response, error) {
	err := readEvents(body, func(event sseEvent) error {
		counts, err := t.add(event, header)
		if counts {
			watch.event()
		}
		if _, known := errors.AsType[*agent.ProviderError](err); err != nil && !known {
			return malformed(event, err)
		}
		if err == nil && t.ended() {
			err = errEnded
		}
		return err
	})
	res, complete, started := t.response()
	if complete {
		return res, nil
	}
	switch {
	case !started && errors.Is(err, io.EOF):
		return res, badAnswer("it is a stream without an answer; is this the address of a model's API?")
	case errors.Is(err, io.EOF), errors.Is(err, errEnded):
		return res, unreachable(errors.New("the stream ended before the answer was complete"), "")
	}
	return res, err
}

// readAnswer reads an answer in one piece. It ignores what follows the JSON. An answer that is not JSON is a temporary failure: proxies
// send cut or empty ones, and pages of their own.
func readAnswer(data []byte, header http.Header, t turn) (agent.Response, error) {
	var value json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&value); err != nil {
		failure := badAnswer("it is not JSON, or not complete: %v", err)
		failure.Retryable, failure.RetryAfter = true, retryAfter(header)
		return agent.Response{}, failure
	}
	_, err := t.add(sseEvent{data: value, whole: true}, header)
	res, complete, started := t.response()
	switch _, known := errors.AsType[*agent.ProviderError](err); {
	case known:
		return agent.Response{}, err
	case err != nil:
		return agent.Response{}, badAnswer("it does not have the expected form: %v", err)
	case !started:
		return agent.Response{}, badAnswer("it is not a turn of a model; is this the address of a model's API?")
	case !complete:
		return agent.Response{}, badAnswer("a block of it does not have the expected form")
	}
	return res, nil
}

// isStream reports whether a response is a stream of events, and not a JSON document
// or an HTML page. Servers that do not stream, and errors, come as JSON. The first
// character decides, because some servers send a wrong Content-Type.
func isStream(body *bufio.Reader) (bool, error) {
	for {
		head, err := body.Peek(1)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		switch head[0] {
		case ' ', '\t', '\r', '\n': // sent to keep the connection alive
			_, _ = body.Discard(1)
		case 'd', 'e', 'i', 'r', ':': // data, event, id, retry, comment
			return true, nil
		case 0xef: // byte order mark
			if mark, err := body.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
				_, _ = body.Discard(3)
				continue
			}
			return false, nil
		default:
			return false, nil
		}
	}
}

// watchdog ends a request that stalls.
type watchdog struct {
	cancel  context.CancelCauseFunc
	timeout time.Duration
	bytes   *time.Timer // since the last byte; nil before the first one
	events  *time.Timer // since the last event that counts, or the start
	total   *time.Timer
}

const (
	// defaultStallTimeout is the longest pause within a response. Providers send
	// pings more often than that.
	defaultStallTimeout = 2 * time.Minute
	// A response may take eventFactor times the timeout to begin, and to continue if
	// only pings arrive; and totalFactor times the timeout altogether.
	eventFactor = 5
	totalFactor = 30
)

// watchRequest returns the context for a request that ends when the request stalls.
// The cause is then a *agent.ProviderError.
func watchRequest(ctx context.Context, timeout time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{cancel: cancel, timeout: timeout}
	w.events = w.after(eventFactor*timeout, "no answer arrived for %s")
	w.total = w.after(totalFactor*timeout, "the answer was not complete after %s")
	return ctx, w
}

func (w *watchdog) after(d time.Duration, message string) *time.Timer {
	return time.AfterFunc(d, func() { w.cancel(unreachable(fmt.Errorf(message, d), "")) })
}

// event restarts the time for the next event.
func (w *watchdog) event() { w.events.Reset(eventFactor * w.timeout) }

func (w *watchdog) stop() {
	for _, timer := range []*time.Timer{w.bytes, w.events, w.total} {
		if timer != nil {
			timer.Stop()
		}
	}
	w.cancel(nil)
}

// watchedBody reports its bytes to a watchdog, and fails after maxResponse bytes.
type watchedBody struct {
	io.Reader
	watch *watchdog
	read  int
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	switch {
	case n > 0 && b.watch.bytes == nil:
		b.watch.bytes = b.watch.after(b.watch.timeout, "the response stalled for %s")
	case n > 0:
		b.watch.bytes.Reset(b.watch.timeout)
	}
	if b.read += n; b.read > maxResponse {
		return 0, badAnswer("it is too large: it has more than %d bytes", maxResponse)
	}
	return n, err
}

// textReporter passes the pieces of a turn's text on.
type textReporter struct {
	onText func(offset int, text string) // nil means none
	chars  int
}

func (r *textReporter) report(text string) {
	if r.onText != nil && text != "" {
		r.onText(r.chars, text)
	}
	r.chars += utf8.RuneCountInString(text)
}

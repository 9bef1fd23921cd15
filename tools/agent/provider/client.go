package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const (
	// maxResponse is how much of a response the client reads, in bytes.
	maxResponse  = 64 << 20
	maxErrorBody = 1 << 20
	// After defaultRetryTimeout, a run waits for its provider without a worker.
	defaultRetryTimeout = 5 * time.Second
	connectTimeout      = 5 * time.Second
)

// client posts JSON to one endpoint of a provider's API.
type client struct {
	endpoint     string
	header       http.Header
	key          string // to remove from errors
	retryTimeout time.Duration
	stallTimeout time.Duration
	form         atomic.Value // a requestForm; how this server accepts requests
	http         http.Client
}

// newClient returns a client for a path below the base URL of cfg, or below
// defaultBase if cfg has none. It sends header with each request.
func newClient(cfg Config, defaultBase, path string, header map[string]string) (*client, error) {
	base := cmp.Or(cfg.BaseURL, defaultBase)
	endpoint, err := url.JoinPath(base, path)
	if err == nil && !strings.HasPrefix(endpoint, "http") {
		err = errors.New("want http:// or https://")
	}
	if err != nil {
		return nil, fmt.Errorf("base URL of the model: %w", err)
	}
	c := &client{
		endpoint: endpoint, header: http.Header{}, key: cfg.APIKey,
		retryTimeout: cmp.Or(max(cfg.RetryTimeout, 0), defaultRetryTimeout),
		stallTimeout: cmp.Or(max(cfg.StallTimeout, 0), defaultStallTimeout),
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	c.http.Transport = transport
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // another server must not receive the key
	}
	c.header.Set("User-Agent", "stevedore")
	c.header.Set("Accept", "application/json, text/event-stream")
	c.header.Set("Content-Type", "application/json")
	for name, value := range header {
		c.header.Set(name, value)
	}
	return c, nil
}

// streaming says how a request asks for a stream.
type streaming int32

const (
	streamWithUsage streaming = iota
	streamPlain               // the server rejected the option that asks for the usage
	noStream                  // the server rejected streams
)

// requestForm says what a request has that not every server accepts.
type requestForm struct {
	streaming
	// completionTokens: max_completion_tokens, which newer models of OpenAI want, instead of max_tokens, which other servers know.
	completionTokens bool
}

// api is the format of requests and responses.
type api struct {
	request func(requestForm) any
	newTurn func() turn
}

// complete posts a request, retries temporary failures, and decodes the response. It
// asks for a stream, because a long answer in one piece would exceed the timeouts of
// proxies, and accepts an answer in one piece too.
func (c *client) complete(ctx context.Context, probe bool, format api) (agent.Response, error) {
	return repeat(ctx, c.retryTimeout, probe, func() (agent.Response, error) {
		form, _ := c.form.Load().(requestForm)
		for known := form; ; {
			body, err := jsonform.Encode(format.request(form))
			if err != nil {
				return agent.Response{}, &agent.ProviderError{Code: agent.CodeBadRequest, Message: err.Error()}
			}
			res, err := c.post(ctx, body, format)
			next, ok := form.fallback(err)
			if !ok {
				if err == nil && form != known { // otherwise the form was not the reason
					c.form.Store(form)
				}
				return res, err
			}
			form = next
		}
	})
}

// fallback returns how to ask a server that rejected a request because of its form.
func (f requestForm) fallback(err error) (next requestForm, ok bool) {
	failure, ok := errors.AsType[*agent.ProviderError](err)
	if !ok || failure.Code != agent.CodeBadRequest || failure.Status == http.StatusOK {
		return f, false
	}
	switch text := strings.ToLower(failure.Message); {
	case !f.completionTokens && strings.Contains(text, "max_completion_tokens"):
		f.completionTokens = true
	case f.streaming == streamWithUsage && (strings.Contains(text, "stream_options") || strings.Contains(text, "include_usage")):
		f.streaming = streamPlain
	case f.streaming != noStream && strings.Contains(text, "stream"):
		f.streaming = noStream
	default:
		return f, false
	}
	return f, true
}

// post sends one request and decodes the response. Any status but 200 is a
// *agent.ProviderError.
func (c *client) post(ctx context.Context, body []byte, format api) (res agent.Response, err error) {
	ctx, watch := watchRequest(ctx, c.stallTimeout)
	defer watch.stop()
	defer func() {
		if stalled, ok := errors.AsType[*agent.ProviderError](context.Cause(ctx)); ok && err != nil {
			err = stalled
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return res, &agent.ProviderError{Code: agent.CodeUnreachable, Message: cleanError(err.Error(), c.key)}
	}
	req.Header = c.header.Clone()
	answer, err := c.http.Do(req)
	if err != nil {
		return res, unreachable(err, c.key)
	}
	defer answer.Body.Close()
	reader := bufio.NewReaderSize(&watchedBody{Reader: answer.Body, watch: watch}, 16<<10)
	if answer.StatusCode != http.StatusOK {
		data, err := io.ReadAll(io.LimitReader(reader, maxErrorBody))
		if err != nil {
			return res, c.cut(err)
		}
		return res, httpError(answer.StatusCode, answer.Header, data, c.key)
	}
	isStream, err := isStream(reader)
	if err != nil {
		return res, c.cut(err)
	}
	if isStream {
		res, err = readStream(reader, answer.Header, watch, format.newTurn())
		if err == nil {
			return res, nil
		}
		failure := c.cut(err)
		failure.RetryAfter = cmp.Or(failure.RetryAfter, retryAfter(answer.Header))
		return res, failure
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		return res, c.cut(err)
	}
	return readAnswer(data, answer.Header, format.newTurn())
}

// cut is the error of a response whose connection failed.
func (c *client) cut(err error) *agent.ProviderError {
	if failure, ok := errors.AsType[*agent.ProviderError](err); ok {
		return failure
	}
	return unreachable(fmt.Errorf("read the response: %w", err), c.key)
}

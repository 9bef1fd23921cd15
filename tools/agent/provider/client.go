package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

const (
	// maxResponse is how much of a response the client reads, in bytes.
	maxResponse         = 64 << 20
	requestTimeout      = 10 * time.Minute
	defaultRetryTimeout = 2 * time.Minute
)

// client posts JSON to one endpoint of a provider's API.
type client struct {
	endpoint     string
	header       http.Header
	key          string // to remove from errors
	retryTimeout time.Duration
	http         http.Client
}

// newClient returns a client for a path below the base URL of cfg, or below
// defaultBase if cfg has none. It sends header with each request.
func newClient(cfg Config, defaultBase, path string, header map[string]string) (*client, error) {
	base := cfg.BaseURL
	if base == "" {
		base = defaultBase
	}
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
	}
	c.http.Timeout = requestTimeout
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // another server must not receive the key
	}
	c.header.Set("User-Agent", "stevedore")
	c.header.Set("Accept", "application/json")
	c.header.Set("Content-Type", "application/json")
	for name, value := range header {
		c.header.Set(name, value)
	}
	return c, nil
}

// complete posts a request, retries temporary failures, and decodes the response.
func (c *client) complete(ctx context.Context, request any, decode func(data []byte, header http.Header) (agent.Response, error)) (agent.Response, error) {
	body, err := agent.EncodeJSON(request)
	if err != nil {
		return agent.Response{}, &agent.ProviderError{Code: agent.CodeBadRequest, Message: err.Error()}
	}
	return retry(ctx, c.retryTimeout, func() (agent.Response, error) {
		data, header, err := c.post(ctx, body)
		if err != nil {
			return agent.Response{}, err
		}
		return decode(data, header)
	})
}

// post sends one request and returns the body and the header of the response. Any
// status but 200 is a *agent.ProviderError.
func (c *client) post(ctx context.Context, body []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, nil, &agent.ProviderError{Code: agent.CodeUnreachable, Message: cleanError(err.Error(), c.key)}
	}
	req.Header = c.header.Clone()
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, unreachable(err, c.key)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return nil, nil, unreachable(fmt.Errorf("read the response: %w", err), c.key)
	}
	if res.StatusCode != http.StatusOK {
		return nil, nil, httpError(res.StatusCode, res.Header, data, c.key)
	}
	if len(data) > maxResponse {
		return nil, nil, badAnswer("it is too large: it has more than %d bytes", maxResponse)
	}
	return data, res.Header, nil
}

// decodeJSON decodes the first value of a response. It ignores a byte order mark and
// what follows the value. A response that is not JSON is a temporary failure: proxies
// send cut or empty ones, and pages of their own.
func decodeJSON(data []byte, header http.Header, v any) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var value json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&value); err != nil {
		failure := badAnswer("it is not JSON, or not complete: %v", err)
		failure.Retryable, failure.RetryAfter = true, retryAfter(header)
		return failure
	}
	if err := json.Unmarshal(value, v); err != nil {
		return badAnswer("it does not have the expected form: %v", err)
	}
	return nil
}

// lenient ignores the parts of a value that have the wrong type.
type lenient[T any] struct{ value T }

func (l *lenient[T]) UnmarshalJSON(data []byte) error {
	_ = json.Unmarshal(data, &l.value)
	return nil
}

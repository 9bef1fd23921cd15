package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// maxResponse is how much of a response the client reads, in bytes.
const maxResponse = 64 << 20

// client posts JSON to one endpoint of a provider's API.
type client struct {
	endpoint string
	header   http.Header
	cfg      Config
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
	c := &client{endpoint: endpoint, header: http.Header{}, cfg: cfg.withDefaults()}
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
	return retry(ctx, c.cfg.RetryTimeout, func() (agent.Response, error) {
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
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, nil, &agent.ProviderError{Code: agent.CodeUnreachable, Message: cleanError(err.Error(), c.cfg.APIKey)}
	}
	req.Header = c.header.Clone()
	res, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return nil, nil, unreachable(err, c.cfg.APIKey)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return nil, nil, unreachable(fmt.Errorf("read the response: %w", err), c.cfg.APIKey)
	}
	if res.StatusCode != http.StatusOK {
		return nil, nil, httpError(res.StatusCode, res.Header, data, c.cfg.APIKey)
	}
	return data, res.Header, nil
}

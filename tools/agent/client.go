package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer is the largest answer that the client reads, in bytes.
const maxAnswer = 64 << 20

// client posts JSON to one endpoint of a provider's API.
type client struct {
	endpoint string
	header   http.Header
	cfg      ProviderConfig
}

// newClient returns a client for a path below the base URL of cfg, or below
// defaultBase if cfg names none. It sends header with each request.
func newClient(cfg ProviderConfig, defaultBase, path string, header map[string]string) (*client, error) {
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

// complete posts a request, retries failures that may be temporary, and returns
// what read makes of the answer.
func (c *client) complete(ctx context.Context, request any, read func(data []byte, header http.Header) (Response, error)) (Response, error) {
	body, err := encode(request)
	if err != nil {
		return Response{}, &ProviderError{Code: CodeBadRequest, Message: err.Error()}
	}
	return persist(ctx, c.cfg.Patience, func() (Response, error) {
		data, header, err := c.post(ctx, body)
		if err != nil {
			return Response{}, err
		}
		return read(data, header)
	})
}

// post sends one request and returns the body and the header of its answer. Any
// status but 200 is a *ProviderError.
func (c *client) post(ctx context.Context, body []byte) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, nil, &ProviderError{Code: CodeUnreachable, Message: cleanError(err.Error(), c.cfg.APIKey)}
	}
	req.Header = c.header.Clone()
	res, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return nil, nil, unreachable(err, c.cfg.APIKey)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, nil, unreachable(fmt.Errorf("read the answer: %w", err), c.cfg.APIKey)
	}
	if res.StatusCode != http.StatusOK {
		return nil, nil, apiError(res.StatusCode, res.Header, data, c.cfg.APIKey)
	}
	return data, res.Header, nil
}

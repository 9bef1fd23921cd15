package builtin

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxHeader is the largest header of a response, in bytes.
	maxHeader = 64 << 10
	// maxRedirects is how many redirects web_fetch follows.
	maxRedirects = 5
	// maxRatio is the largest compression ratio of a body that is larger than
	// ratioFree, in bytes. The ratio of text is rarely above 10.
	maxRatio  = 200
	ratioFree = 1 << 20
)

// newClient returns a client that keeps no connections, cookies and secrets, and that
// connects to public addresses only.
func newClient(cfg WebConfig) *http.Client {
	dialer := &net.Dialer{Timeout: cfg.HeaderTimeout, Resolver: cfg.Resolver, ControlContext: guard(cfg.Allow)}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would resolve the name without guard
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    cfg.HeaderTimeout,
			ResponseHeaderTimeout:  cfg.HeaderTimeout,
			MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives:      true,
			DisableCompression:     true, // keep decompresses with a limit
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return tools.Errorf(tools.CodeToolFailed, "more than %d redirects", maxRedirects)
			}
			req.Header.Del("Referer")
			return checkURL(req.URL)
		},
	}
}

// page is a fetched, decompressed body.
type page struct {
	url         *url.URL // after redirects
	status      int
	contentType string
	body        *tools.Output
	truncated   bool
}

// get fetches a page; the caller closes its body.
func (w *web) get(ctx context.Context, u *url.URL) (*page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the URL cannot be requested")
	}
	req.Header.Set("User-Agent", "stevedore")
	req.Header.Set("Accept", "text/html, application/xhtml+xml, text/markdown, text/plain, application/json;q=0.9, */*;q=0.5")
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, w.explain(ctx, err)
	}
	defer resp.Body.Close()
	p := &page{
		url: resp.Request.URL, status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"),
		body: tools.NewOutput(tools.OutputLimits{Dir: w.ws.cfg.Output.Dir, Memory: w.ws.cfg.Output.Memory, Total: w.cfg.MaxBytes}),
	}
	if err := w.keep(p, resp); err != nil {
		_ = p.body.Close()
		return nil, w.explain(ctx, err)
	}
	return p, nil
}

// keep decompresses the body up to the limit.
func (w *web) keep(p *page, resp *http.Response) error {
	compressed := &counter{r: resp.Body}
	body := io.Reader(compressed)
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(compressed)
		switch {
		case err == io.EOF: // an empty body
			return nil
		case err != nil:
			return err
		}
		body = unzipped
	default:
		return tools.Errorf(tools.CodeToolFailed, "the body is encoded as %q, which web_fetch did not request", tools.Excerpt(encoding, 40))
	}
	buf := make([]byte, 32<<10)
	for total := int64(0); ; {
		n, err := body.Read(buf)
		total += int64(n)
		if _, err := p.body.Write(buf[:n]); err != nil {
			return err
		}
		switch {
		case total > ratioFree && total > maxRatio*compressed.n:
			return tools.Errorf(tools.CodeToolFailed, "the decompressed body is more than %d times as large as the compressed one, which suggests an attack", maxRatio)
		case p.body.Truncated():
			p.truncated = true
			return nil
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// explain returns an error for the model, without the URL.
func (w *web) explain(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*tools.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return tools.Errorf(tools.CodeCancelled, "the call was cancelled")
	case ctx.Err() != nil: // also after a timeout of the header
		return tools.Errorf(tools.CodeTimeout, "no complete response within %v", w.cfg.Timeout.Round(time.Millisecond))
	case isNet && timeout.Timeout():
		return tools.Errorf(tools.CodeTimeout, "the server did not answer within %v", w.cfg.HeaderTimeout.Round(time.Millisecond))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return tools.Errorf(tools.CodeToolFailed, "the body ended too early")
	}
	return tools.Errorf(tools.CodeToolFailed, "%s", tools.Excerpt(err.Error(), 300))
}

// counter counts what is read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

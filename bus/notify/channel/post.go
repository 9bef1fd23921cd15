package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

const (
	// sendTimeout bounds one request. After it, the message is sent again, because
	// its outcome is unknown.
	sendTimeout = 30 * time.Second
	// maxPause bounds the pause that a receiver may ask for.
	maxPause = time.Hour
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 4 << 20
)

// transport keeps a connection for each request that a channel may send at once. The
// default keeps two to each host.
var transport = func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, Slots
	return t
}()

// poster posts to one URL and classifies the response.
type poster struct {
	client  *http.Client
	url     string
	host    string // the only part of the URL that errors show
	secrets secrets
	// refusals are the statuses that refuse the credential. A message waits for one that is accepted.
	refusals []int
}

// noRedirect refuses redirects, because they would send the credential to another URL.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newPoster takes the URL and the credentials that the requests contain.
func newPoster(rawURL string, credentials ...string) (*poster, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("want a URL of the form https://HOST/PATH or http://HOST/PATH") // it may be a secret
	}
	return &poster{
		client: &http.Client{Transport: transport, CheckRedirect: noRedirect},
		url:    rawURL, host: u.Host, secrets: secretsOf(u, credentials...), refusals: []int{http.StatusUnauthorized},
	}, nil
}

// post sends body. The error follows the rules of Channel.
func (p *poster) post(ctx context.Context, header http.Header, body []byte) error {
	_, err := p.do(ctx, http.MethodPost, p.url, header, bytes.NewReader(body), int64(len(body)))
	return err
}

// mattermostRefusal is in the response of Mattermost, which is no 404, if it has no such webhook.
var mattermostRefusal = []byte("web.incoming_webhook.invalid.app_error")

// do sends a request and returns the body of the response. The error is as for post.
func (p *poster) do(ctx context.Context, method, url string, header http.Header, body io.Reader, length int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(length))
	defer cancel()
	res, text, err := p.exchange(ctx, method, url, header, body, length)
	if err != nil {
		return nil, err
	}
	err = p.check(res, text)
	if slices.Contains(p.refusals, res.StatusCode) || res.StatusCode == http.StatusBadRequest && bytes.Contains(text, mattermostRefusal) {
		err = errors.Unwrap(err) // of the rejection, so that the message waits
	}
	return text, err
}

// exchange sends a request and returns the response, whatever its status is, with its body.
func (p *poster) exchange(ctx context.Context, method, url string, header http.Header, body io.Reader, length int64) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, nil, consume.Reject("unsendable", fmt.Errorf("post to %s: cannot create the request", p.host))
	}
	req.Header, req.ContentLength = header, length
	req.Header.Set("User-Agent", "stevedore")
	res, err := p.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("post to %s: %s", p.host, p.secrets.hideCause(err))
	}
	defer func() { _ = res.Body.Close() }() // nothing is written to it
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil && res.StatusCode/100 == 2 {
		return nil, nil, fmt.Errorf("post to %s: read the response: %s", p.host, p.secrets.hideCause(err))
	}
	return res, text, nil
}

// check returns an error, as post does, unless the status of a response is a success.
func (p *poster) check(res *http.Response, text []byte) error {
	if res.StatusCode/100 == 2 {
		return nil
	}
	return classify(res, fmt.Errorf("post to %s: %s", p.host, p.secrets.hide(res.Status+": "+string(text))))
}

// download opens the file at a URL. An error of consume.Rejected is final.
func (p *poster) download(ctx context.Context, url string) (io.ReadCloser, error) {
	fail := func(err error) error { return fmt.Errorf("download: %s", p.secrets.hideCause(err)) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, consume.Reject("no_file", fail(err))
	}
	res, err := p.client.Do(req) // ctx limits the time
	if err != nil {
		return nil, fail(err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	return nil, classify(res, errors.Join(fail(errors.New(res.Status)), res.Body.Close()))
}

// classify turns err into a rejection if a retry of the request cannot succeed.
func classify(res *http.Response, err error) error {
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusServiceUnavailable:
		if pause, ok := retry.After(res.Header, maxPause); ok {
			return consume.RetryAfter(pause, err)
		}
		return err
	case res.StatusCode >= 500, res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooEarly:
		return err
	}
	return consume.Reject("refused_"+strconv.Itoa(res.StatusCode), err)
}

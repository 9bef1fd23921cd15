package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

const (
	// sendTimeout bounds one request; after it the fate of the message is
	// unknown, and it is sent again.
	sendTimeout = 30 * time.Second
	// maxPause bounds what the other side may ask us to wait.
	maxPause = time.Hour
)

// poster posts to one place and turns what comes back into a verdict.
type poster struct {
	client  *http.Client
	url     string
	host    string // the only part of the URL that errors show
	secrets secrets
}

// newPoster takes the URL, and the credentials that go into the requests.
func newPoster(rawURL string, credentials ...string) (*poster, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("the URL is not of the form https://HOST/PATH or http://HOST/PATH") // it may be a secret
	}
	return &poster{
		client: &http.Client{
			Timeout: sendTimeout,
			// A redirect would carry the credential to somewhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url: rawURL, host: u.Host, secrets: secretsOf(u, credentials...),
	}, nil
}

// post sends body. The error is a verdict and names no secret.
func (p *poster) post(ctx context.Context, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return bus.Reject("unsendable", fmt.Errorf("post to %s: the request cannot be made", p.host))
	}
	req.Header = header
	req.Header.Set("User-Agent", "stevedore")
	res, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("post to %s: %s", p.host, p.secrets.cause(err))
	}
	defer func() { _ = res.Body.Close() }()                 // it was only read
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // only for the error; what is cut off is not shown
	if res.StatusCode/100 == 2 {
		return nil
	}
	return verdict(res, fmt.Errorf("post to %s: %s", p.host, p.secrets.hide(res.Status+": "+string(text))))
}

// verdict tells what may heal from what will not.
func verdict(res *http.Response, err error) error {
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusServiceUnavailable:
		if pause, ok := retryAfter(res.Header.Get("Retry-After"), time.Now()); ok {
			return bus.RetryAfter(pause, err)
		}
		return err
	case res.StatusCode >= 500, res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooEarly:
		return err
	}
	return bus.Reject("refused_"+strconv.Itoa(res.StatusCode), err)
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	var pause time.Duration
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		pause = time.Duration(min(max(seconds, 0), maxPause.Seconds()) * float64(time.Second))
	} else if date, err := http.ParseTime(value); err == nil {
		pause = date.Sub(now)
	} else {
		return 0, false
	}
	return min(max(pause, time.Millisecond), maxPause), true
}

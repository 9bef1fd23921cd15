package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// errNotFound means that the Bot API does not know the token or the method.
var errNotFound = errors.New("the token or the method is unknown")

// notFoundPause is the pause after errNotFound.
const notFoundPause = 5 * time.Minute

// request calls a method of the Bot API. Its error contains no token; it asks for a pause
// if the Bot API does.
func (t *Telegram) request(ctx context.Context, method string, params, result any) error {
	timeout := sendTimeout
	if method == "getUpdates" {
		timeout += pollTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := bus.Encode(params)
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("telegram %s: %s", method, t.secrets.hideCause(err)) }
	notFound := func(err error) error { return bus.RetryAfter(notFoundPause, fmt.Errorf("%w: %w", err, errNotFound)) }
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.api+method, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := t.poll.Do(req)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = res.Body.Close() }() // nothing is written to it
	var answer struct {
		OK          bool            `json:"ok"`
		Result      json.RawMessage `json:"result"`
		Code        int             `json:"error_code"`
		Description string          `json:"description"`
		Parameters  struct {
			RetryAfter int `json:"retry_after"`
		} `json:"parameters"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		err = fail(fmt.Errorf("%s: the answer is not JSON: %w", res.Status, err))
		if res.StatusCode == http.StatusNotFound {
			return notFound(err)
		}
		return err
	}
	switch {
	case answer.OK && result == nil:
		return nil
	case answer.OK:
		return json.Unmarshal(answer.Result, result)
	}
	err = fail(fmt.Errorf("%d %s", answer.Code, answer.Description))
	switch answer.Code {
	case http.StatusTooManyRequests:
		return bus.RetryAfter(min(time.Duration(max(answer.Parameters.RetryAfter, 1))*time.Second, maxPause), err)
	case http.StatusConflict: // another process receives, or a webhook is set
		return bus.RetryAfter(pollTimeout/2, err)
	case http.StatusBadRequest:
		return bus.Reject("refused_400", err)
	case http.StatusUnauthorized, http.StatusNotFound: // the token was revoked
		return notFound(err)
	}
	return err
}

package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

// isBadRequest reports whether the Bot API rejected the content of a request.
func isBadRequest(err error) bool {
	code, _ := consume.Rejected(err)
	return code == "refused_400"
}

// request calls a method of the Bot API with parameters as JSON. Its error contains no
// token and follows the rules of Channel.
func (t *Telegram) request(ctx context.Context, method string, params, result any) error {
	body, err := bus.Encode(params)
	if err != nil {
		return err
	}
	return t.post(ctx, method, "application/json", bytes.NewReader(body), int64(len(body)), result)
}

// send calls a method with the fields that are not empty and, if it is not nil, a file. Its
// error is as for request.
func (t *Telegram) send(ctx context.Context, method string, fields map[string]string, file *Document, result any) error {
	body, length, contentType := form(fields, "document", file)
	return t.post(ctx, method, contentType, body, length, result)
}

func (t *Telegram) post(ctx context.Context, method, contentType string, body io.Reader, length int64, result any) error {
	timeout := timeoutOf(length)
	if method == "getUpdates" {
		timeout += pollTimeout // the Bot API keeps the request open
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, text, err := t.api.exchange(ctx, http.MethodPost, t.api.url+method, http.Header{"Content-Type": {contentType}}, body, length)
	if err != nil {
		return fmt.Errorf("telegram %s: %w", method, err)
	}
	var answer apiAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		if res.StatusCode != http.StatusNotFound {
			return fmt.Errorf("telegram %s: %s: the answer is not JSON: %w", method, t.api.secrets.hide(res.Status), err)
		}
		answer = apiAnswer{Code: res.StatusCode, Description: "Not Found"} // not a Bot API
	}
	switch {
	case answer.OK && result == nil:
		return nil
	case answer.OK:
		return json.Unmarshal(answer.Result, result)
	}
	return answer.classify(fmt.Errorf("telegram %s: %d %s", method, answer.Code, t.api.secrets.hide(answer.Description)))
}

// apiAnswer is an answer of the Bot API.
type apiAnswer struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// classify turns err into a rejection if a retry cannot succeed.
func (a apiAnswer) classify(err error) error {
	switch {
	case a.Code == http.StatusTooManyRequests:
		seconds := min(max(a.Parameters.RetryAfter, 1), int(maxPause/time.Second))
		return consume.RetryAfter(time.Duration(seconds)*time.Second, err)
	case a.Code == http.StatusConflict: // another process receives, or a webhook is set
		return consume.RetryAfter(pollTimeout/2, err)
	case a.Parameters.MigrateTo != 0:
		return consume.Reject("chat_moved", err)
	case a.refusesToken(): // a message waits for a token that is accepted
		return fmt.Errorf("%w: the server does not accept the token", err)
	case a.Code >= 400 && a.Code < 500:
		return consume.Reject("refused_"+strconv.Itoa(a.Code), err)
	}
	return err
}

// refusesToken reports whether the token is the reason of an error: it was revoked, or it does not have the form of one.
// An unknown method has a longer description.
func (a apiAnswer) refusesToken() bool {
	return a.Code == http.StatusUnauthorized || a.Code == http.StatusNotFound && a.Description == "Not Found"
}

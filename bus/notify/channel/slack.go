package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
)

// Slack is a bot of a Slack app. The web API takes no idempotency key: if a response is lost, the
// message appears twice.
type Slack struct {
	*bot
	token, appToken string
	self            string // the bot's user id, once it is known
}

// NewSlack returns a channel for an app. token is that of its bot (xoxb-...); appToken lets it
// receive (xapp-...) and may be empty. NewSlack does not connect.
func NewSlack(token, appToken string, cfg BotConfig) (*Slack, error) {
	b, err := newBot("slack", "https://slack.com/api", cfg, token, appToken)
	if err != nil {
		return nil, err
	}
	s := &Slack{bot: b, token: token, appToken: appToken}
	s.platform = s
	return s, nil
}

// temporarySlack are the errors of the web API after which a retry can succeed.
var temporarySlack = []string{"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}

// call calls a method of the web API.
func (s *Slack) call(ctx context.Context, token, method string, params url.Values, result any) error {
	header := http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/x-www-form-urlencoded"}}
	body, err := s.api.do(ctx, http.MethodPost, s.api.url+"/"+method, header, strings.NewReader(params.Encode()), int64(len(params.Encode())))
	if err != nil {
		return fmt.Errorf("slack %s: %w", method, err)
	}
	var answer struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("slack %s: the answer is not JSON: %w", method, err)
	}
	switch {
	case answer.OK && result == nil:
		return nil
	case answer.OK:
		return json.Unmarshal(body, result)
	}
	reason := s.api.secrets.hide(answer.Error)
	err = fmt.Errorf("slack %s: %s", method, reason)
	if slices.Contains(temporarySlack, reason) {
		return err
	}
	return bus.Reject("refused_"+reason, err)
}

// put implements platform. The web API does not edit a message whose text is no mrkdwn.
func (s *Slack) put(ctx context.Context, chat, id, _, text string, markdown bool) (string, error) {
	params := url.Values{"channel": {chat}, "text": {text}, "unfurl_links": {"false"}, "unfurl_media": {"false"}, "mrkdwn": {fmt.Sprint(markdown)}}
	method := "chat.postMessage"
	switch {
	case id != "" && markdown:
		method = "chat.update"
		params.Set("ts", id)
	case id != "":
		if err := s.RemoveDraft(ctx, chat, id); err != nil {
			return "", err
		}
	}
	var sent struct {
		TS string `json:"ts"`
	}
	err := s.call(ctx, s.token, method, params, &sent)
	return sent.TS, err
}

// MaxFile implements FileChannel.
func (s *Slack) MaxFile() int64 { return 1 << 30 }

// putFile implements platform, as
// https://docs.slack.dev/reference/methods/files.getUploadURLExternal describes.
func (s *Slack) putFile(ctx context.Context, chat, _ string, f *Document) error {
	var to struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	if err := s.call(ctx, s.token, "files.getUploadURLExternal", url.Values{"filename": {f.Name}, "length": {fmt.Sprint(f.Size)}}, &to); err != nil {
		return err
	}
	if _, err := s.api.do(ctx, http.MethodPost, to.URL, http.Header{"Content-Type": {"application/octet-stream"}}, f.reader(), f.Size); err != nil {
		return fmt.Errorf("slack upload: %w", err)
	}
	files, _ := json.Marshal([]object{{"id": to.ID, "title": f.Name}}) // texts do not fail
	return s.call(ctx, s.token, "files.completeUploadExternal", url.Values{"files": {string(files)}, "channel_id": {chat}}, nil)
}

// RemoveDraft implements DraftChannel.
func (s *Slack) RemoveDraft(ctx context.Context, chat, id string) error {
	err := s.call(ctx, s.token, "chat.delete", url.Values{"channel": {chat}, "ts": {id}}, nil)
	if isGone(err) {
		return nil
	}
	return err
}

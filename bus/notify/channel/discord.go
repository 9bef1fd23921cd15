package channel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
)

// Discord is a bot of a Discord application. Discord drops a message that it gets again within
// minutes.
type Discord struct {
	*bot
	token string

	// Of the session at the gateway. Receive has one connection at a time.
	self      string // the bot's user id
	session   string // empty if there is none to resume
	resumeURL string
	sequence  atomic.Int64 // of the last event that was handled
	handling  atomic.Bool  // an event is being handled
}

// NewDiscord returns a channel for a bot's token. It does not connect.
func NewDiscord(token string, cfg BotConfig) (*Discord, error) {
	b, err := newBot("discord", "https://discord.com/api/v10", cfg, token)
	if err != nil {
		return nil, err
	}
	d := &Discord{bot: b, token: token}
	d.platform = d
	return d, nil
}

// call sends a request to the web API.
func (d *Discord) call(ctx context.Context, method, path string, content object, result any) error {
	header := http.Header{"Authorization": {"Bot " + d.token}}
	var body []byte
	if content != nil {
		header.Set("Content-Type", "application/json")
		body, _ = json.Marshal(content) // texts and numbers do not fail
	}
	answer, err := d.api.do(ctx, method, d.api.url+path, header, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return fmt.Errorf("discord: %w", err)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}

// put implements platform.
func (d *Discord) put(ctx context.Context, chat, id, key, text string, markdown bool) (string, error) {
	content := shapes["discord"].body(message{Text: text}).(object)
	method, path := http.MethodPost, messagesOf(chat)
	switch {
	case id != "":
		method, path = http.MethodPatch, path+"/"+url.PathEscape(id)
	case key != "":
		content["nonce"], content["enforce_nonce"] = nonce(key), true
	}
	var sent discordMessage
	err := d.call(ctx, method, path, content, &sent)
	return sent.ID, err
}

func nonce(key string) string {
	digest := sha256.Sum256([]byte(key))
	return hex.EncodeToString(digest[:12])
}

// MaxFile implements FileChannel; see https://discord.com/developers/docs/reference#uploading-files
func (d *Discord) MaxFile() int64 { return 10 << 20 }

// putFile implements platform.
func (d *Discord) putFile(ctx context.Context, chat, key string, f *Document) error {
	payload, _ := json.Marshal(object{"nonce": nonce(key), "enforce_nonce": true}) // cannot fail
	body, length, contentType := form(map[string]string{"payload_json": string(payload)}, "files[0]", f)
	header := http.Header{"Authorization": {"Bot " + d.token}, "Content-Type": {contentType}}
	_, err := d.api.do(ctx, http.MethodPost, d.api.url+messagesOf(chat), header, body, length)
	return err
}

// RemoveDraft implements DraftChannel.
func (d *Discord) RemoveDraft(ctx context.Context, chat, id string) error {
	err := d.call(ctx, http.MethodDelete, messagesOf(chat)+"/"+url.PathEscape(id), nil, nil)
	if isGone(err) {
		return nil
	}
	return err
}

// messagesOf returns the path of the messages of a chat.
func messagesOf(chat string) string { return "/channels/" + url.PathEscape(chat) + "/messages" }

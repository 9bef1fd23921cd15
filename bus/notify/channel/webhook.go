package channel

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Webhook posts notifications as JSON, signed as standardwebhooks.com describes.
// Webhook-Id and Idempotency-Key are the same for every attempt: a receiver that
// drops known ids gets each notification effectively once.
type Webhook struct {
	chats  // none are listed: it sends to any chat and receives from none
	post   *poster
	signer *standardwebhooks.Webhook
}

// NewWebhook returns a channel that posts to url. The secret has the form
// whsec_BASE64; if it is empty, requests are not signed. If allow is not empty, the channel
// sends only to the chats that it lists, separated by ";", and to the default chat. It
// receives only from chats that allow lists.
func NewWebhook(url, secret, allow string) (*Webhook, error) {
	post, err := newPoster(url, secret)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	list := parseChats(allow, "")
	w := &Webhook{chats: chats{kind: "webhook", toAll: len(list.named()) == 1, allow: list}, post: post} // of several, its program chooses
	if secret != "" {
		if w.signer, err = standardwebhooks.NewWebhook(secret); err != nil {
			return nil, fmt.Errorf("webhook to %s: want a secret of the form whsec_BASE64", post.host)
		}
	}
	return w, nil
}

// webhookBody is the body that Standard Webhooks recommends.
type webhookBody struct {
	Type      string       `json:"type"`
	Timestamp time.Time    `json:"timestamp"`
	Data      Notification `json:"data"`
}

// CheckChat implements Receiving.
func (w *Webhook) CheckChat(chat string) error {
	if !w.ListsChats() {
		return nil
	}
	return w.chats.CheckChat(chat)
}

// ListsChats implements Receiving.
func (w *Webhook) ListsChats() bool { return len(w.allow) > 0 }

// Send posts n once.
func (w *Webhook) Send(ctx context.Context, n Notification) error {
	if err := w.CheckChat(n.ChatID); err != nil {
		return consume.Reject("refused_chat", err)
	}
	body, err := bus.Encode(webhookBody{Type: "stevedore.notification", Timestamp: n.At, Data: n})
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	id, now := headerID(n.ID), time.Now()
	header := http.Header{
		"Content-Type":      {"application/json"},
		"Idempotency-Key":   {id},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)},
	}
	if w.signer != nil {
		signature, err := w.signer.Sign(id, now, body)
		if err != nil {
			return consume.Reject("unsendable", fmt.Errorf("webhook to %s: cannot sign it", w.post.host))
		}
		header.Set("Webhook-Signature", signature)
	}
	return w.post.post(ctx, header, body)
}

var safeID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`)

// headerID returns an id that is safe in a header; a client may have chosen it.
func headerID(id string) string {
	if safeID.MatchString(id) {
		return id
	}
	return tools.Token(id)
}

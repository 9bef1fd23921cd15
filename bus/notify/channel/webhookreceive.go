package channel

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// maxIncoming bounds the body of a message, in bytes.
const maxIncoming = 256 << 10

// incomingBody is the body of a message that a platform posts.
type incomingBody struct {
	// ID of the message; default the header Webhook-Id.
	ID     string `json:"id"`
	ChatID string `json:"chat_id"`
	// From names the sender, for the agent.
	From string `json:"from"`
	Text string `json:"text"`
}

// Receiver returns a handler for the messages that a platform posts, signed with the
// channel's secret as Standard Webhooks. The status says what became of the message:
//
//	202  it is accepted, now or before; the body is an Accepted
//	400  it cannot be read    401  the signature is wrong or too old
//	403  the chat is not allowed    409  the id belongs to another message
//	503  it is not accepted; send it again after Retry-After
//
// httpauth.Serve limits the time in which a body must arrive.
func (w *Webhook) Receiver(inbox Inbox, log zerolog.Logger) (http.Handler, error) {
	if w.signer == nil {
		return nil, errors.New("the setting secret is required to receive messages")
	}
	log = log.Sample(&zerolog.BurstSampler{Burst: 10, Period: time.Minute}) // anybody can cause the lines
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		status, answer := w.receive(rw, r, inbox, log)
		if status == http.StatusServiceUnavailable {
			rw.Header().Set("Retry-After", "5")
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(answer) // the client is gone
	}), nil
}

func (w *Webhook) receive(rw http.ResponseWriter, r *http.Request, inbox Inbox, log zerolog.Logger) (status int, answer any) {
	refuse := func(status int, message string) (int, any) {
		return status, object{"error": object{"message": message}}
	}
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "send a message with POST")
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxIncoming))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return refuse(http.StatusRequestEntityTooLarge, "the body is too large")
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body was not received completely")
	}
	if err := w.signer.Verify(body, r.Header); err != nil {
		rw.Header().Set("Connection", "close")
		log.Warn().Str("from", r.RemoteAddr).Msg("rejected a message whose signature is wrong or too old")
		return refuse(http.StatusUnauthorized, "the signature is missing, wrong or too old; sign as standardwebhooks.com describes")
	}
	var m incomingBody
	if err := tools.DecodeStrict(body, &m); err != nil {
		return refuse(http.StatusBadRequest, `the body is not a message: want {"chat_id":"...","text":"..."}`)
	}
	m.ID = cmp.Or(m.ID, r.Header.Get("Webhook-Id"))
	text := strings.TrimSpace(m.Text)
	switch {
	case m.ChatID == "" || text == "" || m.ID == "":
		return refuse(http.StatusBadRequest, "chat_id and text are required")
	case !w.allow.mayReceive(m.ChatID):
		log.Warn().Str("chat", tools.Excerpt(m.ChatID, 80)).Msg("rejected a message of a chat that is not allowed; to accept it, add the " +
			"chat to the setting allow of the channel")
		return refuse(http.StatusForbidden, "the chat is not allowed")
	}
	accepted, err := inbox.Accept(r.Context(), Incoming{ID: m.ID, ChatID: m.ChatID, Text: text, From: m.From})
	failure, final := errors.AsType[*tools.Error](err)
	switch {
	case err == nil:
		return http.StatusAccepted, accepted
	case final && failure.Code == tools.CodeMismatch:
		return refuse(http.StatusConflict, "the id belongs to a message with another text")
	case final:
		return refuse(http.StatusBadRequest, failure.Message)
	case errors.Is(err, bus.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "the text is too long")
	}
	log.Warn().Err(err).Msg("cannot accept a message")
	return refuse(http.StatusServiceUnavailable, "the message is not accepted; send it again later")
}

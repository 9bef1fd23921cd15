package agents

import (
	"context"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// outputPrefix begins the ids of the outputs of tools.
const outputPrefix = "output."

// OutputSender returns the function that puts the output of an agent's tools into
// the outbox. Its key follows from the call, so a repeated message is dropped.
func OutputSender(notifier *notify.Notifier) func(context.Context, tools.Call, tools.Result) error {
	return func(ctx context.Context, call tools.Call, res tools.Result) error {
		n := channel.Notification{
			ID:      fmt.Sprintf(outputPrefix+"%s.%s", call.SessionToken(), call.IDToken()),
			Session: call.Session, Call: call.ID, Tool: call.Tool, Channel: call.Channel, ChatID: call.ChatID,
			Text: res.ForUser, IsError: res.IsError,
		}
		if res.Markdown {
			n.Format = channel.FormatMarkdown
		}
		return notifier.SendOutput(ctx, n)
	}
}

// Sender publishes the messages of the message tool to the outbox.
type Sender struct {
	Notifier *notify.Notifier
	Reader   *offload.Reader // of the artifacts that messages send
}

// Send implements builtin.Sender. An outage of the bus is no answer of the tool: the call runs
// again, and the key of the message makes that harmless.
func (s Sender) Send(ctx context.Context, m builtin.Message) (to string, err error) {
	defer func() {
		if bus.IsOutage(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", tools.ErrInterrupted, err)
		}
	}()
	if m.OtherChat {
		if err := s.Notifier.CheckChat(ctx, m.Session, m.Channel, m.ChatID); err != nil {
			return "", err
		}
	}
	var file *channel.Artifact
	if m.Artifact != "" {
		rec, err := s.Reader.Record(ctx, m.Session, m.Artifact)
		if err != nil {
			return "", err
		}
		file = &channel.Artifact{ID: rec.ID, Digest: rec.Digest}
	}
	sent, err := s.Notifier.Send(ctx, channel.Notification{
		Artifact: file, ID: m.Key, Session: m.Session, Call: m.Call, Tool: "message",
		Channel: m.Channel, ChatID: m.ChatID, Text: m.Text, Format: channel.FormatMarkdown, // as models write it
	})
	to = sent.Channel
	if sent.ChatID != "" {
		to += ":" + sent.ChatID
	}
	if sent.Note != "" {
		to += " (" + sent.Note + ")"
	}
	return to, err
}

package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// ServeBridge answers the requests of a bridge, or of a program that reads the users' messages of
// a channel which the notifier delivers to, until ctx ends. The settings of the channel decide
// whose messages are accepted.
func (in *Inbox) ServeBridge(ctx context.Context, to channel.Receiving) error {
	s := &bridgeService{in, to, in.log.Sample(&zerolog.BurstSampler{Burst: 10, Period: time.Minute})}
	works, err := in.bus.Conn().Subscribe(s.works(), func(m *nats.Msg) { trouble.Report(ctx, trouble.Kind(m.Data), in.channel, nil) })
	if err != nil {
		return err
	}
	defer func() { _ = works.Unsubscribe() }() // the connection may be gone
	return rpc.ServeMessages(ctx, in.bus, in.channel, in.log, func(ctx context.Context, body []byte) (any, error) { return s.answer(ctx, body) })
}

// bridgeService is one ServeBridge.
type bridgeService struct {
	in        *Inbox
	to        channel.Receiving
	strangers zerolog.Logger // anybody can write to a bot
}

// codeNotAllowed is the error code of a message of a chat that is not allowed.
const codeNotAllowed = "not_allowed"

func (s *bridgeService) answer(ctx context.Context, body []byte) (answer channel.BridgeAnswer, err error) {
	var r channel.BridgeRequest
	if err := tools.DecodeStrict(body, &r); err != nil {
		return answer, tools.Errorf(tools.CodeInvalidArguments, "the request cannot be read: %v", err)
	}
	bridge, _ := s.to.(*channel.Bridge)
	if bridge == nil && (r.Prepare != nil || r.File != nil || r.Reject != nil) {
		return answer, tools.Errorf(tools.CodeInvalidArguments, "the notifier delivers the notifications of this channel")
	}
	switch {
	case r.Prepare != nil:
		prepared, err := s.in.notifier.Prepare(ctx, s.in.channel, bridge, r.Subject, r.Prepare)
		return channel.BridgeAnswer{Prepared: &prepared}, err
	case r.File != nil:
		answer.Data, err = s.in.notifier.FilePiece(ctx, s.in.channel, bridge, r.Subject, r.File, r.Offset)
		return answer, err
	case r.Reject != nil:
		return answer, s.in.notifier.Reject(ctx, s.in.channel, *r.Reject)
	case r.Receiving != nil || r.Sending != nil:
		return answer, errors.Join(s.report(ctx, trouble.Receiver, r.Receiving), s.report(ctx, trouble.Channel, r.Sending))
	case r.ChatID == "" && r.ID == "":
		return s.chats(ctx)
	}
	chat, allowed := s.to.MayReceive(r.ChatID)
	if !allowed {
		s.strangers.Warn().Str("channel", s.in.channel).Str("chat", tools.Excerpt(r.ChatID, 80)).Msg("ignored a message of a chat that is " +
			"not allowed; to accept it, add the chat to the settings of the channel")
		return answer, tools.Errorf(codeNotAllowed, "the chat is not allowed")
	}
	r.ChatID = chat
	return s.handle(ctx, r)
}

// works is the subject on which all workers hear what of the bridge works again: each may have noted a failure of it.
func (s *bridgeService) works() string { return s.in.bus.RPC("works", s.in.channel) }

// report notes why a bridge fails, or that it works.
func (s *bridgeService) report(ctx context.Context, kind trouble.Kind, why *string) error {
	switch {
	case why == nil:
	case *why == "":
		return s.in.bus.Conn().Publish(s.works(), []byte(kind))
	default:
		trouble.Report(ctx, kind, s.in.channel, fmt.Errorf("its program says: %s", tools.Excerpt(tools.OneLine(*why), 300)))
	}
	return nil
}

// handle handles what a user of an allowed chat did.
func (s *bridgeService) handle(ctx context.Context, r channel.BridgeRequest) (answer channel.BridgeAnswer, err error) {
	switch {
	case r.Decide != nil:
		answer.Text, err = s.in.Decide(ctx, channel.Decision{
			Key: r.Decide.Key, ChatID: r.ChatID, Approve: r.Decide.Approve, Reason: r.Decide.Reason, By: s.in.channel + ":" + tools.Excerpt(tools.OneLine(r.User), 80),
		})
	case r.Unanswered != "":
		answer.Outcome, err = s.in.unanswered(ctx, r.ChatID, r.Unanswered)
	case r.ID != "":
		m := channel.Incoming{ID: r.ID, ChatID: r.ChatID, Text: strings.TrimSpace(r.Text), From: r.From, Context: r.Context}
		for _, f := range r.Files {
			m.Files = append(m.Files, attachment(f))
		}
		if r.Voice != nil {
			m.Voice = new(attachment(*r.Voice))
		}
		if m.Text == "" && m.Context == "" && m.Files == nil && m.Voice == nil {
			return answer, tools.Errorf(tools.CodeInvalidArguments, "the message is empty")
		}
		answer.Accepted = new(channel.Accepted)
		*answer.Accepted, err = s.in.Accept(ctx, m)
	}
	if err != nil || r.Position == "" {
		return answer, err
	}
	return answer, s.in.setPosition(ctx, s.to.Room(r.ChatID), r.Position)
}

// unanswered returns the outcome of the run of a message that ended without a text for the user.
func (in *Inbox) unanswered(ctx context.Context, chat, id string) (tools.Outcome, error) {
	result, _, err := task.ReadResult(ctx, in.bus, in.bus.Result(tools.TokenOf(in.channel+"-"+chat), tools.TokenOf(MessageID(id))))
	if !result.Silent && strings.TrimSpace(result.ForUser) != "" {
		return "", err
	}
	return result.Outcome, err
}

func attachment(f channel.BridgeFile) channel.Attachment {
	return channel.Attachment{Name: f.Name, Open: func(context.Context) (io.ReadCloser, error) {
		switch {
		case f.Problem != "":
			return nil, consume.Reject("no_file", errors.New(tools.Excerpt(tools.OneLine(f.Problem), 200)))
		case len(f.Data) == 0:
			return nil, consume.Reject("no_file", errors.New("it is empty"))
		}
		return io.NopCloser(bytes.NewReader(f.Data)), nil
	}}
}

func (s *bridgeService) chats(ctx context.Context) (answer channel.BridgeAnswer, err error) {
	answer.Chat, answer.Chats = s.to.DefaultChat(), map[string]string{}
	for _, chat := range s.to.Chats() {
		if answer.Chats[chat], err = s.in.position(ctx, chat); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

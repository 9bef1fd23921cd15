package process

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
)

// receiveOptions say which channels take messages of users.
type receiveOptions struct {
	Channels []string `flag:"receive" split:"," unit:"NAME" help:"NAMEs of channels (telegram, bridge, email, webhook) that take messages for the agent"`
	Listen   string   `flag:"receive-listen" default:"127.0.0.1:8788" unit:"HOST:PORT" help:"HOST:PORT of the endpoint /messages/NAME for webhook channels"`
	URL      string   `flag:"transcribe" unit:"URL[,model=NAME]" help:"of a server of OpenAI's audio/transcriptions, for voice messages"`
	Key      string   `flag:"transcribe-key" unit:"KEY" help:"KEY for --transcribe, as env:VARIABLE or file:PATH"`
}

// transcriber returns what makes texts of voice messages, or nil.
func (o *receiveOptions) transcriber(read secretReader) (*channel.Transcriber, error) {
	if o.URL == "" {
		return nil, nil
	}
	key, err := read(o.Key)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--transcribe-key: %w", err)
	}
	address, model, _ := strings.Cut(o.URL, ",model=")
	t, err := channel.NewTranscriber(address, key, model)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--transcribe: %w", err)
	}
	return t, nil
}

// receiver receives messages over a connection that it opens.
type receiver interface {
	Receive(ctx context.Context, inbox channel.Inbox, log zerolog.Logger) error
}

// endpoint receives messages by HTTP requests.
type endpoint interface {
	Receiver(inbox channel.Inbox, log zerolog.Logger) (http.Handler, error)
}

// check returns an error if a channel cannot receive messages.
func (o *receiveOptions) check(channels map[string]channel.Channel) (err error) {
	for i, name := range o.Channels {
		if channels[name] == nil || slices.Contains(o.Channels[:i], name) {
			return cli.Exit(cli.ExitUsage, "--receive %s: name a --channel of this process, once", name)
		}
		to, receives := channels[name].(channel.Receiving)
		_, hasSecret := to.(unread)
		posted, isEndpoint := to.(endpoint)
		switch {
		case !receives:
			err = errors.New("only channels of the kinds telegram, bridge, email and webhook receive messages")
		case hasSecret: // openReceivers checks it
		case len(to.Chats()) == 0:
			err = errors.New("the settings of the channel (chat, allow) name no chat, so no message would be accepted")
		case isEndpoint:
			_, err = posted.Receiver(nil, zerolog.Nop())
		}
		if err != nil {
			return cli.Exit(cli.ExitUsage, "--receive %s: %w", name, err)
		}
	}
	return nil
}

// openReceivers opens the channels that receive messages. They start in run.
func (p *process) openReceivers(ctx context.Context, artifacts artifactStore, notifier *notify.Notifier, channels map[string]channel.Channel) error {
	if len(p.Receive.Channels) == 0 {
		return nil
	}
	if len(p.Agents.Models) == 0 {
		p.log.Warn().Msg("messages of users wait until a worker with --model answers them; this process has none")
	}
	if err := p.Receive.check(channels); err != nil { // Check has left some out
		return err
	}
	transcriber, err := p.Receive.transcriber(ReadSecret)
	if err != nil {
		return err
	}
	mux, endpoints := http.NewServeMux(), false
	for _, name := range p.Receive.Channels {
		to := channels[name]
		if err := agents.SetReceives(ctx, p.bus, name); err != nil {
			return err
		}
		log := p.log.With().Str("channel", name).Logger()
		inbox := agents.NewInbox(p.bus, notifier, artifacts.Store, name, to, p.log)
		inbox.Transcriber = transcriber
		switch to := to.(type) {
		case receiver:
			p.beside(func(ctx context.Context) error {
				defer inbox.Close()
				return inbox.Alone(ctx, func(ctx context.Context) error { return to.Receive(ctx, inbox, log) })
			})
		case endpoint:
			handler, err := to.Receiver(inbox, log)
			if err != nil {
				return err
			}
			endpoints = true
			mux.Handle("/messages/"+name, handler)
			p.atEnd(func() error { inbox.Close(); return nil })
		case channel.Receiving: // by requests on the bus
			p.beside(func(ctx context.Context) error {
				defer inbox.Close()
				return inbox.ServeBridge(ctx, to)
			})
		}
	}
	if !endpoints {
		return nil
	}
	l, err := httpauth.Listen(ctx, p.Receive.Listen)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "--receive-listen: %w", err)
	}
	stop := httpauth.Serve(l, mux, func(err error) { p.log.Error().Err(err).Msg("the endpoint for messages failed") })
	p.atEnd(func() error { stop(); return nil })
	p.log.Info().Str("address", l.Addr().String()).Msg("the endpoint for messages is listening")
	return nil
}

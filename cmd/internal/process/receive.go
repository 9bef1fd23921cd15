package process

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
)

// receiveOptions say which channels take messages of users.
type receiveOptions struct {
	channels   []string
	listen     string
	transcribe string
	key        string
}

// AddFlags adds the flags of received messages.
func (o *receiveOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.channels, "receive", nil, "`NAME`s of channels whose users may write to the agent: telegram, bridge "+
		"(requests of a program on the bus, such as a bot of Slack or Discord), email (requests of a program that reads the mailbox), "+
		"webhook (signed requests to --receive-listen), or nats-agent (prompts on the bus). Only the chats in the channel's settings "+
		"chat and allow are accepted, or the addresses in to")
	flags.StringVar(&o.listen, "receive-listen", "127.0.0.1:8788", "`HOST:PORT` of the HTTP endpoint /messages/NAME for the messages of webhook channels")
	flags.StringVar(&o.transcribe, "transcribe", "", "`URL[,model=NAME]` of a server of OpenAI's audio/transcriptions, such as "+
		"https://api.openai.com/v1, which makes texts of voice messages; default model whisper-1")
	flags.StringVar(&o.key, "transcribe-key", "", "`KEY` for --transcribe, as env:VARIABLE or file:PATH")
}

// transcriber returns what makes texts of voice messages, or nil.
func (o *receiveOptions) transcriber() (*channel.Transcriber, error) {
	if o.transcribe == "" {
		return nil, nil
	}
	key := ""
	if o.key != "" {
		var err error
		if key, err = ReadSecret(o.key); err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--transcribe-key: %w", err)
		}
	}
	address, model, _ := strings.Cut(o.transcribe, ",model=")
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

// openReceivers opens the channels that receive messages. They start in run.
func (p *process) openReceivers(ctx context.Context, artifacts artifactStore, notifier *notify.Notifier, channels map[string]channel.Channel) error {
	if len(p.Receive.channels) == 0 {
		return nil
	}
	if len(p.Agents.Models) == 0 {
		p.log.Warn().Msg("messages of users wait until a worker with --model answers them; this process has none")
	}
	transcriber, err := p.Receive.transcriber()
	if err != nil {
		return err
	}
	mux, endpoints := http.NewServeMux(), false
	for i, name := range p.Receive.channels {
		to := channels[name]
		if to == nil || slices.Contains(p.Receive.channels[:i], name) {
			return cli.Exit(cli.ExitUsage, "--receive %s: name a --channel of this process, once", name)
		}
		log := p.log.With().Str("channel", name).Logger()
		inbox := agents.NewInbox(p.bus, notifier, artifacts.Store, name, to, p.log)
		inbox.Transcriber = transcriber
		switch to := to.(type) {
		case receiver:
			if limited, ok := to.(interface{ CheckReceive() error }); ok {
				if err := limited.CheckReceive(); err != nil {
					return cli.Exit(cli.ExitUsage, "--receive %s: %w", name, err)
				}
			}
			p.beside(func(ctx context.Context) error {
				defer inbox.Close()
				return to.Receive(ctx, inbox, log)
			})
		case endpoint:
			handler, err := to.Receiver(inbox, log)
			if err != nil {
				return cli.Exit(cli.ExitUsage, "--receive %s: %w", name, err)
			}
			endpoints = true
			mux.Handle("/messages/"+name, handler)
			p.atEnd(func() error { inbox.Close(); return nil })
		case channel.Receiving: // by requests on the bus
			p.beside(func(ctx context.Context) error {
				defer inbox.Close()
				return inbox.ServeBridge(ctx, to)
			})
		default:
			return cli.Exit(cli.ExitUsage, "--receive %s: only channels of the kinds telegram, bridge, email, webhook and nats-agent receive messages", name)
		}
	}
	if !endpoints {
		return nil
	}
	l, err := httpauth.Listen(ctx, p.Receive.listen)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "--receive-listen: %w", err)
	}
	stop := httpauth.Serve(l, mux, func(err error) { p.log.Error().Err(err).Msg("the endpoint for messages failed") })
	p.atEnd(func() error { stop(); return nil })
	p.log.Info().Str("address", l.Addr().String()).Msg("the endpoint for messages is listening")
	return nil
}

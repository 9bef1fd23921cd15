package process

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// ChannelOptions are the channels of a process.
type ChannelOptions struct {
	Given   []string `flag:"channel" unit:"NAME=SPEC" help:"NAME=SPEC of a channel to the user, such as log=file:notes.jsonl; see stevedore channels"`
	Default string   `flag:"default-channel" default:"console" unit:"NAME" help:"NAME of the channel for notifications that name no other"`
	// noConsole is set if the console of the process is not for the users of these channels.
	noConsole bool
}

// Specs returns the specs by name.
func (o *ChannelOptions) Specs() (map[string]string, error) {
	specs := map[string]string{}
	if !o.noConsole {
		specs["console"] = "console"
	}
	seen := map[string]bool{} // a flag may replace the console once
	for _, flag := range o.Given {
		name, spec, ok := strings.Cut(flag, "=")
		if !ok || !tools.IsToken(name) { // the error must not quote the flag: it may hold a secret
			return nil, cli.Exit(cli.ExitUsage, "--channel: want NAME=SPEC, such as log=file:notes.jsonl, with a NAME of the form %s", tools.TokenForm)
		}
		if seen[name] {
			return nil, cli.Exit(cli.ExitUsage, "--channel: the name %q is given twice", name)
		}
		seen[name], specs[name] = true, spec
	}
	return specs, nil
}

// OpenChannel opens the channel of a spec.
func OpenChannel(name, spec string, env channel.Env) (channel.Channel, error) {
	opened, err := channel.Open(spec, env)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--channel %s: %w", name, err)
	}
	return opened, nil
}

// ChannelEnv is the environment in which channels are opened.
func ChannelEnv(stdout io.Writer) channel.Env {
	return channel.Env{Stdout: stdout, LookupEnv: os.LookupEnv, ReadFile: os.ReadFile}
}

// unread is a channel with a secret, which Check does not read.
type unread struct{ channel.Receiving }

// checkChannels returns an error if a channel cannot be opened, or cannot receive what it should.
func (o *Options) checkChannels() error {
	channels, err := o.openChannels(io.Discard, func(spec string) bool { return strings.Contains(spec, "=env:") || strings.Contains(spec, "=file:") })
	if err != nil {
		return err
	}
	if _, err := notify.New(nil, notify.Config{Channels: channels, Default: o.Channels.Default}); err != nil {
		return cli.Exit(cli.ExitUsage, "%w", err)
	}
	return errors.Join(o.Receive.check(channels), errorOf(o.Receive.transcriber(keepSecret)))
}

// openChannels opens the channels, which use stdout later, except those that are left out.
func (o *Options) openChannels(stdout io.Writer, leaveOut func(spec string) bool) (map[string]channel.Channel, error) {
	specs, err := o.Channels.Specs()
	if err != nil {
		return nil, err
	}
	channels := make(map[string]channel.Channel, len(specs))
	env := ChannelEnv(stdout)
	for name, spec := range specs {
		if leaveOut(spec) {
			channels[name] = unread{}
			continue
		}
		if channels[name], err = OpenChannel(name, spec, env); err != nil {
			return nil, err
		}
	}
	return channels, nil
}

// openNotifier opens the notifier. It sends nothing before announced is closed: onReady may print
// what programs expect in the first line of the console.
func (p *process) openNotifier(a artifactStore, channels map[string]channel.Channel, facts state.Store, announced <-chan struct{}) (*notify.Notifier, error) {
	files := agents.FileOpener(a.reader, func(session, id string) string {
		return p.Connection.CommandForOthers("artifacts", "get", id, "--all", "-o", "FILE", "--session", session)
	})
	notifier, err := notify.New(p.bus, notify.Config{
		Channels: channels, Default: p.Channels.Default, OpenFile: files, Facts: facts,
		Conversations: agents.NewConversations(p.bus, facts, p.Receive.Channels), Grace: p.Worker.Grace, Log: p.log,
	})
	if err != nil || p.NoNotify {
		return notifier, err
	}
	p.beside(func(ctx context.Context) error {
		select {
		case <-announced:
			return notifier.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return notifier, nil
}

// Console returns a writer to stdout that drops everything after the reader of
// stdout is gone. Otherwise the notifier would retry each notification to the
// console and fill the log and the outbox.
func Console(stdout io.Writer, log zerolog.Logger) io.Writer {
	return cli.SurviveClosedPipe(stdout, func(err error) {
		log.Warn().Err(err).Msg("the reader of standard output is gone; output for the console is dropped from now on, see --default-channel")
	})
}

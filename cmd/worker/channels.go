package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// channelOptions are the channels of a process.
type channelOptions struct {
	given      []string // NAME=SPEC
	defaultsTo string
}

func (o *channelOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.given, "channel", nil, "`NAME=SPEC` of a channel where users read: console, file:PATH, webhook:url=URL,secret=env:VAR, telegram:token=env:VAR,chat=ID, slack:url=env:VAR, discord, mattermost, ntfy, gotify, http or email; console=console is always there")
	flags.StringVar(&o.defaultsTo, "default-channel", "console", "`NAME` of the channel for what has no other")
}

// specs returns the specs by name.
func (o *channelOptions) specs() (map[string]string, error) {
	specs := map[string]string{"console": "console"}
	seen := map[string]bool{} // the console may be given once, too
	for _, given := range o.given {
		name, spec, ok := strings.Cut(given, "=")
		if !ok || !tools.IsToken(name) { // what was given may hold a secret
			return nil, cli.Exit(cli.ExitUsage, "--channel: want NAME=SPEC, such as log=file:notes.jsonl, with a NAME of the form %s", tools.TokenForm)
		}
		if seen[name] {
			return nil, cli.Exit(cli.ExitUsage, "--channel: the name %q is given twice", name)
		}
		seen[name], specs[name] = true, spec
	}
	return specs, nil
}

// open opens all of them.
func (o *channelOptions) open(stdout io.Writer) (map[string]notify.Channel, error) {
	specs, err := o.specs()
	if err != nil {
		return nil, err
	}
	channels := make(map[string]notify.Channel, len(specs))
	for name, spec := range specs {
		if channels[name], err = openChannel(name, spec, stdout); err != nil {
			return nil, err
		}
	}
	return channels, nil
}

func openChannel(name, spec string, stdout io.Writer) (notify.Channel, error) {
	channel, err := notify.Open(spec, channelEnv(stdout))
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--channel %s: %w", name, err)
	}
	return channel, nil
}

func channelEnv(stdout io.Writer) notify.Env {
	return notify.Env{Stdout: stdout, LookupEnv: os.LookupEnv, ReadFile: os.ReadFile}
}

// notifier returns the notifier with the channels that the flags name.
func (o *processOptions) notifier(b *bus.Bus, facts state.Store, stdout io.Writer, log zerolog.Logger) (*notify.Notifier, error) {
	channels, err := o.channels.open(stdout)
	if err != nil {
		return nil, err
	}
	return notify.New(b, notify.Config{Channels: channels, Default: o.channels.defaultsTo, LastChannels: lastChannels{facts}, Grace: o.worker.Grace, Log: log})
}

// openState opens the facts of this installation: a file beside an embedded
// server, a bucket where several hosts share them.
func (o *processOptions) openState(ctx context.Context, b *bus.Bus, log zerolog.Logger) (state.Store, error) {
	if o.connection.External() {
		bucket, err := b.JetStream().KeyValue(ctx, b.BucketName(bus.StateBucket))
		if err != nil {
			return nil, err
		}
		return state.NewKV(bucket), nil
	}
	return state.OpenFile(filepath.Join(o.connection.Data, "state.json"), state.FileConfig{Log: log})
}

// lastChannels tells the notifier where users were last heard.
type lastChannels struct{ facts state.Store }

func (l lastChannels) LastChannel(ctx context.Context, session string) (channel, chat string, err error) {
	c, err := state.LastChannel(ctx, l.facts, session)
	return c.Name, c.ChatID, err
}

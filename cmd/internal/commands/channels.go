package commands

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

const channelsHelp = `List, test and remove the channels that deliver notifications to users. "ls" and "test" take the
flags, the settings file and the environment of a worker. They need no bus.

  stevedore channels ls --config settings.yaml
  stevedore channels test log --channel log=file:notes.txt
  stevedore channels rm log            no process serves it any more

A SPEC is a kind, or KIND:NAME=VALUE,NAME=VALUE with the settings of that kind:

%s
Settings in [] are optional. Settings with a * are secrets: give env:VARIABLE or
file:PATH instead of the value.

"test" sends one notification directly to the channel, once. It prints the error of the
channel, without secrets.

"rm" makes the workers forget a channel whose name is in no settings any more: its
notifications that wait, and those that are sent to it later, go to the default channel.`

func newChannelsCommand() *cobra.Command {
	var worker process.Options // so that the flags and the settings of one are valid
	o := &worker.Channels
	var json, wide bool
	cmd := &cobra.Command{
		Use:     "channels",
		Aliases: []string{"channel"},
		Short:   "List, test and remove the channels that deliver notifications to users",
		Long:    fmt.Sprintf(channelsHelp, channel.KindsHelp()),
	}
	ls := &cobra.Command{
		Use: "ls", Short: "List the channels of the settings and their errors",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wide {
				cmd.SetOut(cli.Wide(cmd.OutOrStdout()))
			}
			if !json {
				fmt.Fprintf(cmd.ErrOrStderr(), "The channels of these flags and settings; for those that the workers of a server have: %s\n",
					worker.Connection.Command("status"))
			}
			return listChannels(o, cmd.OutOrStdout(), json)
		},
	}
	ls.Flags().BoolVar(&wide, "wide", false, "show all columns of a list, also those that do not fit the terminal")
	ls.Flags().BoolVar(&json, "json", false, "print JSON, one object per line")

	var chat, text string
	test := &cobra.Command{
		Use: "test NAME", Short: "Send a test notification through a channel",
		RunE: func(cmd *cobra.Command, args []string) error {
			return testChannel(cmd.Context(), o, args[0], chat, text, cmd.OutOrStdout())
		},
	}
	test.Flags().StringVar(&chat, "chat-id", "", "`CHAT` within the channel; default that of the channel")
	test.Flags().StringVar(&text, "text", "This is a test. Notifications of Stevedore arrive here.", "`TEXT` to send")
	for _, c := range []*cobra.Command{ls, test} {
		worker.AddFlags(c.Flags())
		cli.CommonFlags(c, "channel", "default-channel", "config", "json", "wide", "chat-id", "text")
		cmd.AddCommand(c)
	}
	cmd.AddCommand(newChannelsRemoveCommand())
	return cmd
}

func newChannelsRemoveCommand() *cobra.Command {
	o := new(client.Options)
	remove := func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		name := args[0]
		now := status.Read(ctx, b)
		i := slices.IndexFunc(now.Channels, func(c status.Channel) bool { return c.Name == tools.Token(name) })
		switch {
		case i >= 0 && (now.Channels[i].Served || now.Channels[i].Kind != ""): // a worker has it in its settings
			return fmt.Errorf("a process serves the channel %q now; stop it, or remove the channel from its settings, and try again", name)
		case i >= 0 && now.Channels[i].Default: // it would go nowhere
			return fmt.Errorf("the channel %q is the default one of a worker; give the workers another --default-channel, and try again", name)
		case len(now.Errors) > 0:
			return fmt.Errorf("it is not known whether a process serves the channel %q: %s", name, strings.Join(now.Errors, "; "))
		}
		if err := notify.RemoveChannel(ctx, b, name); err != nil {
			return err
		}
		cli.Note(cmd.ErrOrStderr(), "Removed. What waits for %s goes to the default channel.", name)
		return nil
	}
	cmd := o.Command("rm NAME", "Remove a channel that no process serves any more", remove)
	o.AddFlags(cmd)
	return cmd
}

// listedChannel is a channel in the list. It omits the settings of the spec: they may
// contain a secret in a wrong place.
type listedChannel struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Default bool   `json:"default"`
	Error   string `json:"error,omitempty"`
}

func listChannels(o *process.ChannelOptions, out io.Writer, json bool) error {
	specs, err := o.Specs()
	if err != nil {
		return err
	}
	var all []listedChannel
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		kind, _, _ := strings.Cut(specs[name], ":")
		c := listedChannel{Name: name, Kind: kind, Default: name == o.Default}
		if _, err := channel.Open(specs[name], process.ChannelEnv(out)); err != nil {
			c.Error = err.Error()
			broken = append(broken, name)
		}
		all = append(all, c)
	}
	err = client.PrintList(json, out, all, "No channels.", []string{"channel", "kind", "default", "error"},
		func(c listedChannel) []any { return []any{c.Name, c.Kind, c.Default, dash(c.Error)} })
	if err != nil {
		return err
	}
	if _, ok := specs[o.Default]; !ok {
		return cli.Exit(cli.ExitFailed, "the default channel %q is not in this list; another process must deliver its notifications", o.Default)
	}
	if len(broken) > 0 {
		return cli.Exit(cli.ExitFailed, "cannot be opened: %s", strings.Join(broken, ", "))
	}
	return nil
}

// testTimeout is the time in which a channel must accept a notification.
const testTimeout = time.Minute

func testChannel(ctx context.Context, o *process.ChannelOptions, name, chat, text string, out io.Writer) error {
	specs, err := o.Specs()
	if err != nil {
		return err
	}
	spec, ok := specs[name]
	if !ok {
		return cli.Exit(cli.ExitNotFound, "there is no channel %q; the settings name %s", name, strings.Join(slices.Sorted(maps.Keys(specs)), ", "))
	}
	opened, err := process.OpenChannel(name, spec, process.ChannelEnv(out))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	now := time.Now().UTC()
	err = opened.Send(ctx, channel.Notification{
		// A new id each time, because receivers may drop duplicates.
		ID: fmt.Sprintf("test-%x", now.UnixNano()), Kind: channel.KindMessage, Channel: name, ChatID: chat, Text: text, At: now,
	})
	if err == nil {
		_, err = fmt.Fprintf(out, "Sent to %s; the receiver accepted it.\n", name)
		return err
	}
	what := "would be retried with increasing pauses"
	if _, hopeless := consume.Rejected(err); hopeless {
		what = "would become a dead letter immediately"
	} else if pause, ok := consume.Postponed(err); ok {
		what = fmt.Sprintf("would be retried after %s, as the receiver requests", pause.Round(time.Millisecond))
	}
	return fmt.Errorf("channel %s: %w\nA notification with this error %s", name, err, what)
}

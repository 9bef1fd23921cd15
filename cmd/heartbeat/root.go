package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
)

const rootHelp = `Schedule the heartbeat: regular prompts of an agent with the
instructions in HEARTBEAT.md of the workspace.

The NATS server creates the ticks and workers run them, so ticks continue if this
process stops, and several copies of it may run. It watches the file: a change
updates the schedule and restarts the interval; a file that is missing, empty or
the unchanged template removes the schedule. A tick is skipped while the previous
run continues. Each run adds a line to memory/heartbeat.log in the workspace; at
1 MiB the log replaces heartbeat.log.1. The result is sent to the channel, unless
it is exactly HEARTBEAT_OK.

A worker with a model answers. To call another tool regularly, see "stevedore cron". For example

  stevedore-heartbeat init                               write an initial HEARTBEAT.md
  stevedore-heartbeat --server nats://nats.example:4222  keep the schedule
  stevedore-heartbeat list                               list the heartbeats and their times
  stevedore-heartbeat --enabled=false                    remove the schedule

"stevedore up" also schedules the heartbeat, with the flags below. This command also accepts
short names: --enabled, --every, --allow-short, --channel.`

type options struct {
	connection cli.Connection
	logging    cli.Logging
	heartbeat  cli.Heartbeat
}

func newRoot() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:     "stevedore-heartbeat",
		Short:   "Schedule the heartbeat of HEARTBEAT.md",
		Long:    rootHelp,
		Version: cli.ReadVersion().Version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), cmd, o)
		},
	}
	root.Flags().SetNormalizeFunc(longNames)
	o.connection.AddFlags(root.PersistentFlags())
	o.logging.AddFlags(root.PersistentFlags())
	o.heartbeat.AddFlags(root.Flags(), "")
	cli.AddSettingsOf(root.PersistentFlags(), &o.heartbeat, struct {
		Workspace string `flag:"workspace" default:"." unit:"DIR" help:"DIR of HEARTBEAT.md and memory/heartbeat.log"`
	}{}, "")
	root.Flags().BoolVar(&o.heartbeat.Once, "once", false, "update the schedule and exit")
	cli.AddConfigFlag(root)
	root.AddCommand(newListCommand(&o), newInitCommand(&o), cli.NewVersionCommand("stevedore-heartbeat"))
	cli.AddHelp(root)
	return root
}

// longNames makes --every an alias of --heartbeat-every, and so on, so that a setting
// has the same name for both commands.
func longNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "enabled", "every", "allow-short", "channel":
		name = "heartbeat-" + name
	}
	return pflag.NormalizedName(name)
}

func serve(ctx context.Context, cmd *cobra.Command, o options) error {
	log, err := o.logging.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	cfg, err := o.heartbeat.Configuration(o.heartbeat.Workspace)
	if err != nil {
		return err
	}
	cfg.Log = log
	cli.SurviveClosedPipe(cmd.OutOrStdout(), func(error) {}) // the log may go into a pipe
	b, err := o.connection.Connect(ctx, "stevedore heartbeat", log)
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := admin.Provision(ctx, b, admin.Nothing); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	group.Go(func() error {
		defer stop()
		return heartbeat.Run(ctx, b, cfg)
	})
	group.Go(func() error {
		select {
		case <-b.Closed():
			return b.ClosedErr()
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

func newListCommand(o *options) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the heartbeats and their due times",
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.logging.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			b, err := o.connection.Connect(cmd.Context(), "stevedore heartbeat", log)
			if err != nil {
				return err
			}
			defer b.Close()
			answer, err := cron.New(b).Do(cmd.Context(), cron.Caller{Operator: true}, "", cron.Request{Action: cron.ActionList, Kind: bus.Heartbeat})
			switch {
			case err != nil:
				return err
			case asJSON:
				return cli.JSONLines(cmd.OutOrStdout(), answer.Jobs)
			case len(answer.Jobs) == 0:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "Nothing is scheduled.")
			default:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), answer.Text())
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func newInitCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write an initial HEARTBEAT.md, unless one exists",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, created, err := heartbeat.Init(o.heartbeat.Workspace)
			if err != nil {
				return err
			}
			text := "File exists: "
			if created {
				text = "Created; now add instructions: "
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text+path)
			return err
		},
	}
}

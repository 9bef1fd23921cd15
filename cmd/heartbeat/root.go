package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/heartbeat"
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

const rootHelp = `Keep the heartbeat: a schedule in the NATS server that makes a call of a tool
now and then, as HEARTBEAT.md in the workspace wants it.

The server fires and the workers work, so this process may run in several copies
and may stop; ticks go on. It watches the file: a change is sent on and begins the
interval anew, and a file that is missing, empty or an untouched template removes
the schedule and costs nothing. A tick whose predecessor still runs is skipped.
Each run adds a line to memory/heartbeat.log in the workspace; at 1 MiB it becomes
heartbeat.log.1, in place of the one before. An answer that is exactly HEARTBEAT_OK
is kept from the user, any other one reaches the channel.

What a heartbeat calls is --tool, with --args and, in the argument that
--prompt-arg names, the text of HEARTBEAT.md. There is no default here: a tool that
acts on its own is yours to choose. For example

  heartbeat init                                    write a HEARTBEAT.md to fill in
  heartbeat --tool shell --args '{"command":"./check.sh"}'
  heartbeat --tool subagent --prompt-arg task       an agent, where one is served
  heartbeat list                                    what is scheduled, and when
  STEVEDORE_HEARTBEAT_ENABLED=false heartbeat       switch it off

"worker up" keeps the heartbeat as well. The flags' names are short for those of
"worker up": --every is --heartbeat-every.

` + cli.ExitCodesHelp

type options struct {
	connection cli.Connection
	logging    cli.Logging
	heartbeat  cli.Heartbeat
	once       bool
}

func newRoot() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "heartbeat",
		Short: "Keep the heartbeat's schedule as HEARTBEAT.md wants it",
		Long:  rootHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return keep(cmd.Context(), cmd, o)
		},
	}
	root.Flags().SetNormalizeFunc(longNames)
	o.connection.AddFlags(root.PersistentFlags())
	o.logging.AddFlags(root.PersistentFlags())
	o.heartbeat.AddFlags(root.Flags(), "", "")
	root.PersistentFlags().StringVar(&o.heartbeat.Workspace, "workspace", ".", "`DIR` of HEARTBEAT.md and memory/heartbeat.log")
	root.Flags().BoolVar(&o.once, "once", false, "put the schedule right and exit")
	cli.AddConfigFlag(root)
	root.AddCommand(newListCommand(&o), newInitCommand(&o))
	cli.AddHelp(root)
	return root
}

// longNames lets --every stand for --heartbeat-every, and so on: the settings of
// both commands have one name each.
func longNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "enabled", "every", "allow-short", "tool", "args", "prompt-arg", "channel":
		name = "heartbeat-" + name
	}
	return pflag.NormalizedName(name)
}

func keep(ctx context.Context, cmd *cobra.Command, o options) error {
	log, err := o.logging.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	cfg, err := o.heartbeat.Configuration()
	if err != nil {
		return err
	}
	cfg.Log = log
	cli.Outlive(cmd.OutOrStdout(), func(error) {}) // the log may go into a pipe
	if err := cfg.Validate(); err != nil {
		return cli.Exit(cli.ExitUsage, "%w", err)
	}
	b, err := o.connection.Connect(ctx, "stevedore heartbeat", log)
	if err != nil {
		return err
	}
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer b.Close()
	if _, err := b.Provision(ctx, false); err != nil {
		return err
	}
	if o.once {
		return heartbeat.Once(ctx, b, cfg)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watcher.Go(func() {
		<-b.Closed()
		cancel(b.ClosedErr())
	})
	if err := heartbeat.Run(ctx, b, cfg); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && cause != ctx.Err() {
		return cause
	}
	return nil
}

func newListCommand(o *options) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List what is scheduled, heartbeats and cron jobs, and when it is due",
		Args:  cli.Args(cobra.NoArgs),
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
			return list(cmd, b, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

func list(cmd *cobra.Command, b *bus.Bus, asJSON bool) error {
	out := cmd.OutOrStdout()
	count := 0
	for s, err := range schedule.New(b).List(cmd.Context(), "") {
		if err != nil {
			return err
		}
		count++
		if asJSON {
			if err := cli.JSON(out, s); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(out, "%s %s: %s; %s\n", s.Kind, s.Name, s.When(), due(s)); err != nil {
			return err
		}
	}
	if count == 0 && !asJSON {
		_, err := fmt.Fprintln(out, "Nothing is scheduled.")
		return err
	}
	return nil
}

func due(s schedule.Status) string {
	const layout = "2006-01-02 15:04:05 MST"
	parts := []string{"it is not due any more"}
	if !s.Next.IsZero() {
		parts[0] = "next " + s.Next.Local().Format(layout)
	}
	if !s.Last.IsZero() {
		parts = append(parts, "last "+s.Last.Local().Format(layout))
	}
	return strings.Join(parts, ", ")
}

func newInitCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a HEARTBEAT.md to fill in, unless there is one",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, created, err := heartbeat.Init(o.heartbeat.Workspace)
			if err != nil {
				return err
			}
			word := "There is one already: "
			if created {
				word = "Now fill it in: "
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), word+path)
			return err
		},
	}
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const provisionHelp = `Create the missing streams and buckets of Stevedore, and list them. List the settings of
existing ones that differ, and change them only with --update, which also moves what an
earlier version stored to the formats of this version. Afterwards workers need
no permission to create streams and buckets, only to create consumers. The command does
not compare the size and age limits of buckets: the operator sets them.

` + serverConfigHelp

func newProvisionCommand() *cobra.Command {
	var (
		o      client.Options
		update bool
		queues []string
		server serverConfigOptions
	)
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Create or check the streams and buckets on a NATS server, or write its configuration",
		Long:  provisionHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := process.CheckQueues(queues); err != nil {
				return err
			}
			if server.Dir != "" {
				subjects, err := bus.NewSubjects(o.Connection.Prefix)
				if err != nil {
					return cli.Exit(cli.ExitUsage, "--prefix: %w", err)
				}
				cfg, err := server.write(cmd.Context(), subjects, o.Connection, cmd.OutOrStdout())
				if err != nil || server.ServeFrom == "" {
					return err
				}
				return server.addToFleet(cmd.Context(), &o, cfg, cmd.OutOrStdout())
			}
			o.Connection.AnyFormat = true // --update moves what an earlier version stored
			b, err := o.Connect(cmd.Context(), "provision", cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer b.Close()
			if err := checkSteps(cmd.Context(), b, update, cmd.OutOrStdout()); err != nil {
				return err
			}
			progress := cli.StartProgress(cmd.ErrOrStderr(), "Creating and checking streams", -1)
			change := admin.Nothing
			if update {
				change = admin.Everything
			}
			got, err := admin.Provision(cmd.Context(), b, change)
			if err == nil {
				var consumers []bus.Consumer // a notifier creates its own: many tenants have none
				if stream, err := b.UsedStream(cmd.Context(), bus.Ticks); stream != nil || err != nil {
					consumers = append(consumers, b.TickConsumer())
				}
				for _, queue := range queues {
					consumers = append(consumers, b.WorkerConsumer(queue))
				}
				for _, c := range consumers {
					if _, err = b.Consumer(cmd.Context(), c); err != nil {
						break
					}
				}
				if err == nil && got.Permanent != nil {
					err = got.Permanent
				}
			}
			progress.Stop()
			out := cmd.OutOrStdout()
			for _, name := range got.Created {
				_ = cli.Line(out, "%s: created", name)
			}
			for _, name := range got.Unused {
				_ = cli.Line(out, "%s: created at its first use", name)
			}
			for _, step := range got.Moved {
				_ = cli.Line(out, "%v", step)
			}
			for _, d := range got.Differences {
				_ = cli.Line(out, "%v", d)
			}
			switch {
			case err != nil:
				return err
			case len(got.Differences) > 0 && !update:
				return cli.Exit(cli.ExitFailed, "%d settings differ; to change them, repeat the command with --update", len(got.Differences))
			case len(got.Differences)+len(got.Moved) > 0:
				fmt.Fprintln(out, "Updated.")
			case len(got.Created)+len(got.Unused) == 0:
				fmt.Fprintln(out, "All streams and buckets exist with the expected settings.")
			}
			return nil
		},
	}
	o.Connection.AddFlags(cmd.Flags())
	o.Logging.AddFlags(cmd.Flags())
	server.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.Connection.OnDemand, "on-demand", false, "on a server without these streams, create only those that every "+
		"call needs; workers create the others at their first use, if their user may")
	cmd.Flags().BoolVar(&update, "update", false, "change the settings that differ")
	cli.MaxBytesFlag(cmd.Flags(), &o.Connection.Config, "")
	process.AddResultsTTLFlag(cmd.Flags(), &o.Connection)
	cli.Settings(cmd.Flags(), func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&queues, "queue", []string{bus.DefaultQueue}, "`QUEUE`s for which to create the workers' consumers")
	})
	return cmd
}

// checkSteps prints the steps that --update applies to what an earlier version stored. It returns an
// error if a step needs --update, or that the workers stop before.
func checkSteps(ctx context.Context, b *bus.Bus, update bool, out io.Writer) error {
	_, err := b.Formats(ctx)
	other, ok := errors.AsType[*jsapi.FormatError](err)
	if !ok {
		return nil // Provision reports what it cannot look up
	}
	steps, ok := admin.Steps(other)
	if !ok {
		return other
	}
	var workers []status.Worker
	if slices.ContainsFunc(steps, func(s admin.Step) bool { return !s.Beside }) {
		workers = status.Read(ctx, b).Workers
	}
	for _, s := range steps {
		switch {
		case !s.Beside && update && len(workers) > 0:
			return cli.Exit(cli.ExitFailed, "%s: workers of the version before cannot run beside this step; stop all workers, and repeat the "+
				"command; workers that answer: %d", s, len(workers))
		case !update && s.Beside:
			fmt.Fprintf(out, "%s; workers of the version before may go on\n", s)
		case !update:
			fmt.Fprintf(out, "%s; stop the workers of the version before\n", s)
		}
	}
	if !update {
		return other
	}
	return nil
}

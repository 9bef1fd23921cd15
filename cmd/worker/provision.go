package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const provisionHelp = `Create the streams and buckets that Stevedore needs, where they are missing, and
list what was created. What exists and differs is listed, and changed only with
--update. Afterwards workers can run without the right to create streams and
buckets; consumers they still make. How much a bucket may hold, and for how long,
is the operator's.

` + cli.ExitCodesHelp

func newProvisionCommand() *cobra.Command {
	var (
		connection cli.Connection
		logging    cli.Logging
		update     bool
		queues     []string
	)
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Create or check the streams and buckets on a NATS server",
		Long:  provisionHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logging.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := process.CheckQueues(queues); err != nil {
				return err
			}
			b, err := connection.Connect(cmd.Context(), "stevedore provision", log)
			if err != nil {
				return err
			}
			defer b.Close()
			got, err := b.Provision(cmd.Context(), update)
			if err == nil {
				consumers := []bus.Consumer{b.TickConsumer(), b.NotifierConsumer(), b.DeadConsumer()}
				for _, queue := range queues {
					consumers = append(consumers, b.WorkerConsumer(queue))
				}
				err = b.ProvisionConsumers(cmd.Context(), consumers...)
			}
			out := cmd.OutOrStdout()
			for _, name := range got.Created {
				fmt.Fprintf(out, "%s: created\n", name)
			}
			for _, d := range got.Differences {
				fmt.Fprintln(out, d)
			}
			switch {
			case err != nil:
				return err
			case len(got.Differences) > 0 && !update:
				return cli.Exit(cli.ExitFailed, "%d settings differ; \"worker provision --update\" changes them", len(got.Differences))
			case len(got.Differences) > 0:
				fmt.Fprintln(out, "Updated.")
			case len(got.Created) == 0:
				fmt.Fprintln(out, "All streams and buckets are as they should be.")
			}
			return nil
		},
	}
	connection.AddFlags(cmd.Flags())
	logging.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&update, "update", false, "change what differs")
	cmd.Flags().Int64Var(&connection.MaxBytes, "max-bytes", 0, "`BYTES` that each stream may hold, results four times as much; default 1 GiB")
	cmd.Flags().StringSliceVar(&queues, "queue", []string{bus.DefaultQueue}, "`QUEUE`s that workers will serve; their consumers are created, too")
	return cmd
}

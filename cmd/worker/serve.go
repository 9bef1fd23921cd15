package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

const serveHelp = `Run a worker against the bus that --server or --context names, or, without them,
against the one that "worker up" runs in the same data directory. Start as many
as you like, on as many hosts as you like: they share the calls of their queues,
and the calls of one that dies go to the others within --lease.

A worker that gets SIGTERM takes no more calls, and lets those that run finish
within --grace. What is not done by then is handed back, and another worker runs
it at once; a call of a once-only tool ends with the outcome "unknown" instead,
when nobody has claimed to run it for the length of --lease.

With --health it answers probes: /healthz as long as it need not be restarted,
/readyz while it takes calls, and /metrics for Prometheus. The same numbers are in
"nats micro stats stevedore", where each worker shows itself with its queues.

It takes notifications to users only if --channel or --default-channel says where:
the console of a worker of many is where nobody reads. Without them it leaves
notifications to others, as with --no-notify; one process should have them.

The streams and buckets that are missing are created; existing ones are never
altered (see worker provision).

` + cli.ExitCodesHelp

func newServeCommand() *cobra.Command {
	var o processOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one worker of many, against a NATS server or cluster",
		Long:  serveHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.logging.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			o.connection.Config = o.busConfig(log)
			b, err := o.connection.Connect(cmd.Context(), "stevedore worker", log)
			if err != nil {
				return err
			}
			defer b.Close()
			noChannel := !cmd.Flags().Changed("channel") && !cmd.Flags().Changed("default-channel")
			if noChannel && !o.noNotify {
				log.Info().Msg("notifier rests: this worker tells users nothing, another process has to; --channel or --default-channel changes that")
			}
			o.noNotify = o.noNotify || noChannel
			stdout := outlive(cmd.OutOrStdout(), log)
			return o.run(cmd.Context(), b, log, stdout, func() (func() error, error) {
				_, err := fmt.Fprintf(stdout, "Worker serves %s at %s\n", o.queueNames(), b.Conn().ConnectedUrlRedacted())
				return func() error { return nil }, err
			})
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

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
			if err := checkQueues(queues); err != nil {
				return err
			}
			b, err := connection.Connect(cmd.Context(), "stevedore provision", log)
			if err != nil {
				return err
			}
			defer b.Close()
			got, err := b.Provision(cmd.Context(), update)
			if err == nil {
				err = b.ProvisionConsumers(cmd.Context(), queues)
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

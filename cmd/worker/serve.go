package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
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
	var o process.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one worker of many, against a NATS server or cluster",
		Long:  serveHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.Logging.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			o.Connection.Config = o.BusConfig(log)
			b, err := o.Connection.Connect(cmd.Context(), "stevedore worker", log)
			if err != nil {
				return err
			}
			defer b.Close()
			noChannel := !cmd.Flags().Changed("channel") && !cmd.Flags().Changed("default-channel")
			if noChannel && !o.NoNotify {
				log.Info().Msg("notifier rests: this worker tells users nothing, another process has to; --channel or --default-channel changes that")
			}
			o.NoNotify = o.NoNotify || noChannel
			stdout := process.Console(cmd.OutOrStdout(), log)
			return o.Run(cmd.Context(), b, log, stdout, func() (func() error, error) {
				_, err := fmt.Fprintf(stdout, "Worker serves %s at %s\n", o.QueueNames(), b.Conn().ConnectedUrlRedacted())
				return func() error { return nil }, err
			})
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

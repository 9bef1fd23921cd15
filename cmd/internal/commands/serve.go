package commands

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const serveHelp = `Run a worker for the NATS server of --server or --context, or, without these flags,
for the one that "stevedore up" runs in the same data directory. You can start any number
of workers on any number of hosts. They share the calls of their queues. If a worker
dies, the other workers get its calls within --lease.

On SIGTERM a worker stops accepting calls and gives its running calls --grace to finish.
It then requeues the others, and another worker runs them at once. A call of a once-only
tool is not run again: it gets the outcome "unknown" at once. If the worker dies instead,
it gets this outcome when no worker has reported running it for the length of --lease.

With --health the worker serves probes: /healthz succeeds unless the process must be
restarted, /readyz succeeds while the worker accepts calls, and /metrics is for
Prometheus. "nats micro stats stevedore --json" shows the running and ended calls of all
workers.

The worker delivers notifications to users only if --channel or --default-channel is
given, because its console is usually not read. Without them it leaves notifications to
other workers, as with --no-notify. At least one process should deliver notifications.

With --tenants one process serves many tenants, each with a NATS account, a connection and a
workspace of its own. DIR has the credential of each: NAME.creds, or NAME.nk with the seed of
an nkey; and perhaps NAME.yaml with settings that replace those of the process, such as
workspace, channel, model, api-key-file and slots. The workspace of a tenant is otherwise NAME in
--workspace. The tenants share the --slots of each queue in turns. The process sees within 2 s
that files were added, changed or removed: the tenant starts, starts again, or stops when its
running calls have ended, and the others go on. If a tenant cannot run, the log says why, and it
is tried again; "stevedore status --tenants DIR" shows all. See "stevedore provision" for how to
add a tenant.

The worker creates missing streams and buckets, and never changes existing ones; see
"stevedore provision".`

// tenantsSetting names the tenants that one process serves.
type tenantsSetting struct {
	Dir string `flag:"tenants" unit:"DIR" help:"DIR with the credentials of tenants, which one process serves together"`
}

func newServeCommand() *cobra.Command {
	var o process.Options
	var tenants tenantsSetting
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a worker for a NATS server or cluster",
		Long:  serveHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.Logging.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if tenants.Dir != "" {
				return o.RunTenants(cmd.Context(), cmd.Flags(), tenants.Dir, log, func(n int) error {
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "Workers of %d tenants are consuming\n", n)
					return err
				})
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
			refused := o.NoNotify
			if o.NotifyIfAsked(cmd.Flags()); o.NoNotify && !refused {
				log.Info().Msg("this worker delivers no notifications to users, so another process must; set --channel or --default-channel to deliver them here")
			}
			stdout := process.Console(cmd.OutOrStdout(), log)
			return o.Run(cmd.Context(), b, log, stdout, func() (func() error, error) {
				_, err := fmt.Fprintf(stdout, "Worker is consuming queue %s at %s\n", strings.Join(o.Worker.Queues, ", "), b.Conn().ConnectedUrlRedacted())
				return func() error { return nil }, err
			})
		},
	}
	o.AddFlags(cmd.Flags())
	cli.AddSettings(cmd.Flags(), &tenants)
	cli.CommonFlags(cmd, "server", "context", "creds", "workspace", "queue", "slots", "model", "mcp", "channel", "health")
	return cmd
}

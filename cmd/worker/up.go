package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const upHelp = `Run everything in one process: a NATS server with its data in --data, a worker,
the notifier and the heartbeat. Stop it with Ctrl-C; calls that are running get
--grace to finish, and a second Ctrl-C ends it at once. A closed terminal stops it,
too; "nohup worker up &" does not mind. It goes on when nobody reads its output any
more, and drops what is for the console then: "worker up --json | head -1" is the URL.

The server listens on loopback only and wants a credential, which is made at the
first start and kept in the data directory; other commands of the same user find
it there. The printed URL carries it, for clients in any language:

  nats --server "$(worker up's URL)" pub stevedore.call.default.read_file \
      '{"id":"1","session":"s1","args":{"path":"go.mod"}}'
  nats --server ... sub 'stevedore.result.>'

Every message is synced to the disk before it is acknowledged, so that not even
a power failure loses it; --no-sync trades that for speed.

` + cli.ExitCodesHelp

type upOptions struct {
	process.Options
	listen string
	noSync bool
	json   bool
}

func newUpCommand() *cobra.Command {
	var o upOptions
	o.Heartbeat = new(cli.Heartbeat)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run bus, worker, notifier and heartbeat in one process (the default)",
		Long:  upHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	cli.Topic(cmd.Flags(), cli.TopicHeartbeat, func(flags *pflag.FlagSet) { o.Heartbeat.AddFlags(flags, "", "") })
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:4222", "`HOST:PORT` of the embedded server; port 0 picks one")
	cmd.Flags().BoolVar(&o.noSync, "no-sync", false, "do not sync each message to the disk before it is acknowledged")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the URL as a JSON object, in the first line")
	return cmd
}

func up(ctx context.Context, o upOptions, stdout, stderr io.Writer) (err error) {
	if o.Connection.External() {
		return cli.Exit(cli.ExitUsage, "up runs a server of its own; use \"worker serve\" to work for another one, or leave out --server and --context (and NATS_URL and NATS_CONTEXT)")
	}
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return err
	}
	if err := errors.Join(o.Check(), checkListen(o.listen, log)); err != nil {
		return err
	}
	stdout = process.Console(stdout, log)
	server, closeServer, err := process.Embed(o.Connection.Data, o.listen, o.noSync, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()

	b, err := bus.Connect(ctx, server.ClientConfig(o.BusConfig(log)))
	if err != nil {
		return err
	}
	defer b.Close()
	return o.Run(ctx, b, log, stdout, func() (func() error, error) {
		withdraw, err := o.Connection.PublishURL(server.URL())
		if err != nil {
			return nil, err
		}
		if o.json {
			return withdraw, cli.JSON(stdout, map[string]string{"url": server.URL()})
		}
		workspace, err := filepath.Abs(o.Workspace)
		if err != nil {
			return withdraw, err
		}
		where := ""
		if o.Connection.Data != cli.DefaultDataDir() {
			where = " --data " + cli.ShellWord(o.Connection.Data)
		}
		_, err = fmt.Fprintf(stdout, "Stevedore is up at %s\nIts data is in %s; its tools see %s. Try, in another terminal:\n  worker call list_dir path=.%s\n",
			server.URL(), o.Connection.Data, workspace, where)
		return withdraw, err
	})
}

// checkListen refuses what is no address, and warns of one that others reach:
// the credential and all content go over it in the clear.
func checkListen(listen string, log zerolog.Logger) error {
	host, port, err := net.SplitHostPort(listen)
	if _, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil {
		return cli.Exit(cli.ExitUsage, "--listen %q: want HOST:PORT, such as 127.0.0.1:4222", listen)
	}
	addr, err := netip.ParseAddr(host)
	if host != "" && host != "localhost" && (err != nil || !addr.IsLoopback()) {
		log.Warn().Str("listen", listen).Msg("other hosts can reach this server, and nothing is encrypted; who has the credential can run tools")
	}
	return nil
}

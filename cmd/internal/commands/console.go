package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/state/durable"
)

const consoleHelp = `Serve the page of a cluster, or of a running "stevedore up": a web page that shows the
running calls, results, artifacts, conversations, schedules, dead letters, channels,
workers, queues and streams. You can cancel and retry there, and write to the agent.

  stevedore console --server nats://nats.example:4222
  stevedore console --console 127.0.0.1:8080 --console-read-only

Open the printed URL. It contains a token, which the browser exchanges for a cookie.
Without the token the page shows nothing. "stevedore up" serves the same page itself.

The page is for operators: it shows all sessions. It listens on the loopback interface. To
reach it from another machine, use a tunnel (ssh -L 4280:127.0.0.1:4280 HOST), or a proxy
with TLS and --console-host NAME. If the proxy runs on another machine, listen for it with
--console HOST:PORT and --console-insecure.`

const (
	defaultConsole = "127.0.0.1:4280"
	consoleOff     = "off"
)

// consoleOptions are the settings of the page.
type consoleOptions struct {
	Address   string   `flag:"console" unit:"HOST:PORT" help:"HOST:PORT of the page; port 0 selects a free port; off disables the page"`
	Insecure  bool     `flag:"console-insecure" help:"let other hosts reach --console, which has no TLS: for a proxy or an encrypted network"`
	ReadOnly  bool     `flag:"console-read-only" help:"let the page show everything and change nothing"`
	Hosts     []string `flag:"console-host" split:"," unit:"NAME" help:"NAMEs under which a proxy serves the page, in addition to localhost"`
	TokenFile string   `flag:"console-token-file" unit:"FILE" help:"FILE with the token of the page, created if it does not exist"`
	Quiet     bool     `flag:"quiet" help:"print no URL, because it contains a secret (for journals)"`
}

func (o *consoleOptions) addFlags(flags *pflag.FlagSet) {
	o.Address = defaultConsole
	cli.AddSettings(flags, o)
}

func newConsoleCommand() *cobra.Command {
	var o consoleOptions
	var c client.Options
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve a web page that shows the calls, results, conversations and streams of a bus",
		Long:  consoleHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Address == consoleOff {
				return cli.Exit(cli.ExitUsage, "--console off: this command only serves the page")
			}
			log, err := c.Logging.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			b, err := c.Connection.Connect(cmd.Context(), "stevedore console", log)
			if err != nil {
				return err
			}
			defer b.Close()
			failed := make(chan error, 1)
			url, stop, err := o.serve(cmd.Context(), b, &c.Connection, b.Conn().ConnectedUrlRedacted(), log, func(err error) { failed <- err })
			if err != nil {
				return err
			}
			defer stop()
			switch {
			case o.Quiet:
			case c.JSON:
				err = cli.JSON(cmd.OutOrStdout(), map[string]string{"console": url})
			default:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "The page is at %s\n", url)
			}
			if err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done():
				return nil
			case err := <-failed:
				return err
			case <-b.Closed():
				return b.ClosedErr()
			}
		},
	}
	c.AddFlags(cmd)
	o.addFlags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("json", "quiet")
	return cmd
}

// check returns an error if the address is invalid, or if other hosts can reach it without
// permission.
func (o *consoleOptions) check() error {
	if o.Address == consoleOff {
		return nil
	}
	_, loopback, err := httpauth.CheckAddress(o.Address)
	switch {
	case err != nil:
		return cli.Exit(cli.ExitUsage, "--console: %w", err)
	case !loopback && !o.Insecure:
		return cli.Exit(cli.ExitUsage, "--console %s: other hosts can reach this address, and who sees the unencrypted token can run "+
			"tools; use a loopback address with a tunnel or a proxy, or set --console-insecure if the network itself is encrypted", o.Address)
	}
	return nil
}

// serve serves the page of the bus at server until stop is called, and returns its URL with
// the token. It calls failed if the server ends before that. The page shows commands for the connection.
func (o *consoleOptions) serve(ctx context.Context, b *bus.Bus, c *cli.Connection, server string, log zerolog.Logger, failed func(error)) (
	url string, stop func(), err error) {
	if err := o.check(); err != nil {
		return "", nil, err
	}
	token, err := tokenIn(o.TokenFile)
	if err != nil {
		return "", nil, cli.Exit(cli.ExitUsage, "--console-token-file: %w", err)
	}
	page, err := console.New(b, console.Config{
		Token: token, Hosts: o.Hosts, ReadOnly: o.ReadOnly, Version: cli.ReadVersion().Version, Server: server,
		Status: func(ctx context.Context) status.Status { return client.ReadStatus(ctx, b, c) }, Log: log,
	})
	if err != nil {
		return "", nil, cli.Exit(cli.ExitUsage, "--console-token-file: %w", err)
	}
	l, err := httpauth.Listen(ctx, o.Address)
	if err != nil && o.Address == defaultConsole { // another worker of this machine has the port
		l, err = httpauth.Listen(ctx, "127.0.0.1:0")
	}
	if err != nil {
		return "", nil, cli.ListenError("console", o.Address, err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.Warn().Str("console", l.Addr().String()).Msg("other hosts can reach the page over an unencrypted connection; anyone with the token can run tools")
	}
	stop = httpauth.Serve(l, page, func(err error) { failed(fmt.Errorf("serve the page: %w", err)) })
	return fmt.Sprintf("http://%s/?%s=%s", embedded.DialAddr(l.Addr()), httpauth.TokenParameter, token), stop, nil
}

// tokenIn returns the token in a file, which it creates if it does not exist. Without a file, the token is new.
func tokenIn(file string) (string, error) {
	if file == "" {
		return httpauth.NewToken(), nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		token := httpauth.NewToken()
		return token, durable.WriteFile(file, []byte(token+"\n"), 0o600)
	}
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < httpauth.MinToken || strings.ContainsAny(token, " \t\r\n&#+%") {
		return "", fmt.Errorf("%q: want one line of at least %d letters and digits; remove the file to get a new token", file, httpauth.MinToken)
	}
	return token, nil
}

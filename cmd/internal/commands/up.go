package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const upHelp = `Run everything in one process: a NATS server with its data in --data, a worker, the
notifier and the heartbeat. Ctrl-C stops it: running calls get --grace to finish, and a
second Ctrl-C ends the process at once. Closing the terminal stops it too, except with
"nohup stevedore up &". If the reader of its output exits, the process continues and drops
console output. Therefore you can get the URL with "stevedore up --json | head -1".

The server listens on the loopback interface and requires a credential; on another
interface it also needs a certificate (--listen-cert, --listen-key). The first start
creates the credential in the data directory, where other commands of the same user
find it. The printed URL contains it, for clients in any language:

  nats --server URL pub stevedore.call.default.read_file.s1.c1 \
      '{"args":{"path":"go.mod"}}'
  nats --server URL sub 'stevedore.stored.result.>'

Programs read the URL and the credential from NATS_URL, NATS_USER and NATS_PASSWORD. In
another terminal, this command sets them to those of the running server:

  eval "$(stevedore up --print-env)"

The worker also serves a page for browsers and prints its URL, which contains a token: see
"stevedore console --help". --console selects its address, and "--console off" disables it.

The server syncs every message to the disk before it acknowledges the message, so a
power failure loses none. --no-sync is faster, but a power failure can lose messages.`

type upOptions struct {
	process.Options
	console  consoleOptions
	server   ownServer
	json     bool
	printEnv bool
}

// ownServer are the settings of the server that the process runs.
type ownServer struct {
	Listen   string `flag:"listen" default:"127.0.0.1:4222" unit:"HOST:PORT" help:"HOST:PORT of the embedded server; port 0 selects a free port"`
	Cert     string `flag:"listen-cert" unit:"FILE" help:"certificate FILE of the embedded server, for TLS; it is read again when it changes"`
	Key      string `flag:"listen-key" unit:"FILE" help:"key FILE of --listen-cert"`
	Insecure bool   `flag:"listen-insecure" help:"let other hosts reach --listen without TLS"`
	NoSync   bool   `flag:"no-sync" help:"acknowledge messages before they are synced to the disk"`
}

func newUpCommand() *cobra.Command {
	var o upOptions
	o.Heartbeat = new(cli.Heartbeat)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a NATS server, a worker, the notifier and the heartbeat in one process",
		Long:  upHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	o.Heartbeat.AddFlags(cmd.Flags(), cli.TopicHeartbeat)
	o.console.addFlags(cmd.Flags())
	cli.AddSettings(cmd.Flags(), &o.server)
	cmd.Flags().BoolVar(&o.json, "json", false, "print the URLs of the server and of the page as a JSON object in the first line")
	cmd.Flags().BoolVar(&o.printEnv, "print-env", false,
		"start nothing, and print NATS_URL, NATS_USER and NATS_PASSWORD of the server that runs in --data as lines for a shell")
	cmd.MarkFlagsMutuallyExclusive("json", "quiet", "print-env")
	cli.CommonFlags(cmd, "model", "api-key-file", "workspace", "data", "mcp", "ask", "channel", "receive", "listen", "console")
	return cmd
}

func up(ctx context.Context, o upOptions, stdout, stderr io.Writer) (err error) {
	if o.printEnv {
		url, err := o.Connection.EmbeddedURL()
		if err != nil {
			return err
		}
		return printEnv(stdout, url)
	}
	if o.Connection.External() {
		return errOwnServer("up")
	}
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return err
	}
	if err := errors.Join(o.Check(), o.checkListen(log), o.console.check()); err != nil {
		return err
	}
	stdout = process.Console(stdout, log)
	progress := cli.StartProgress(stderr, "Loading the messages in "+cli.ShellWord(o.Connection.Data), -1)
	server, closeServer, err := process.Embed(embedded.Config{Dir: o.Connection.Data, Listen: o.server.Listen, Cert: o.server.Cert,
		Key: o.server.Key, NoSync: o.server.NoSync, Log: log})
	progress.Stop()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	o.OwnServer = server

	limitMemory()
	b, err := bus.Connect(ctx, server.ClientConfig(o.BusConfig(log)))
	if err != nil {
		return err
	}
	defer b.Close()
	return o.Run(ctx, b, log, stdout, func() (func() error, error) {
		page, stopPage, err := o.page(ctx, b, server.URL(), log)
		if err != nil {
			return nil, err
		}
		withdrawURL, err := o.PublishServer(server.URL())
		if err != nil {
			stopPage()
			return nil, err
		}
		withdraw := func() error { stopPage(); return withdrawURL() }
		if o.console.Quiet {
			return withdraw, nil
		}
		if o.json {
			urls := map[string]string{"url": server.URL()}
			if page != "" {
				urls["console"] = page
			}
			return withdraw, cli.JSON(stdout, urls)
		}
		workspace, err := filepath.Abs(o.Workspace)
		if err != nil {
			return withdraw, err
		}
		pageLine := ""
		if page != "" {
			pageLine = "Open the page: " + page + "\n"
		}
		_, err = fmt.Fprintf(stdout, "Stevedore is up at %s\n%sData directory: %s\nWorkspace of the tools: %s\nTry in another terminal:\n  %s\n",
			server.URL(), pageLine, o.Connection.Data, workspace, o.Connection.Command("call", "list_dir", "path=."))
		return withdraw, err
	})
}

// page serves the page, unless it is off; then its URL is empty. An error of the running
// page does not stop the worker.
func (o *upOptions) page(ctx context.Context, b *bus.Bus, server string, log zerolog.Logger) (address string, stop func(), err error) {
	if o.console.Address == consoleOff {
		return "", func() {}, nil
	}
	// With a file, a browser stays signed in when the worker restarts.
	o.console.TokenFile = cmp.Or(o.console.TokenFile, filepath.Join(o.Connection.Data, "console.token"))
	if u, err := url.Parse(server); err == nil {
		u.User = nil // the credential
		server = u.String()
	}
	return o.console.serve(ctx, b, &o.Connection, server, log, func(err error) { log.Error().Err(err).Msg("the page ended; the worker continues") })
}

// limitMemory sets how much garbage may collect before the collector runs: 40 % of what is
// in use, and 38 MB more. The server keeps every subject in memory, so with Go's default of
// 100 %, half of the process would be garbage if a million results are stored. Without the
// constant part, the collector would take a quarter of the CPU time while little is stored.
// The variable GOGC takes precedence.
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
		ballast = make([]byte, 96<<20)
	}
}

// ballast counts as memory in use, but takes none, because nothing writes to it.
//
//lint:ignore U1000 nothing reads it; it only has to stay reachable
var ballast []byte

// errOwnServer is the error of a command that starts a server, if the flags name another
// one.
func errOwnServer(command string) error {
	return cli.Exit(cli.ExitUsage, "%s starts its own server; use \"stevedore serve\" with another server, or remove --server and "+
		"--context (and NATS_URL and NATS_CONTEXT)", command)
}

// checkListen returns an error if the address is invalid, or if other hosts can reach it
// and the connection is not encrypted: anyone who sees the credential can run tools.
func (o *upOptions) checkListen(log zerolog.Logger) error {
	_, local, err := httpauth.CheckAddress(o.server.Listen)
	switch {
	case err != nil:
		return cli.Exit(cli.ExitUsage, "--listen: %w", err)
	case (o.server.Cert == "") != (o.server.Key == ""):
		return cli.Exit(cli.ExitUsage, "--listen-cert and --listen-key belong together")
	case local || o.server.Cert != "":
	case !o.server.Insecure:
		return cli.Exit(cli.ExitUsage, "--listen %s: other hosts can reach this address, and who sees the unencrypted credential can run "+
			"tools; set --listen-cert and --listen-key, or --listen-insecure if the network itself is encrypted", o.server.Listen)
	default:
		log.Warn().Str("listen", o.server.Listen).Msg("other hosts can reach this server over an unencrypted connection; anyone with the credential can run tools")
	}
	return nil
}

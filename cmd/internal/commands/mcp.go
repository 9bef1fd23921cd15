package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wrap"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

const mcpHelp = `Offer the tools of all workers to an MCP client, such as Claude Code, Cursor or VS Code.
Without --http, the client starts this command and talks to it over stdin and stdout.

Big results become references with a link; the client reads the link in pages, and the
model uses the reading tools. Calls are stored on the bus: if this process ends, they go
on. A call that takes long becomes a task if the client supports tasks. Otherwise the
client gets an id after --wait, and the tool get_task_result returns the result.

With --server or --context, the command is a gateway to the workers of a cluster. It
keeps no state, so run any number of them behind a load balancer. Without these flags,
it joins the server of "stevedore up" in the data directory --data, or starts a server and
a worker in this process.

With --http, each request needs "Authorization: Bearer TOKEN". The token decides which
session, and therefore which artifacts and tasks, a client can see. A client can divide
its session with the header Stevedore-Session.

  stevedore mcp --workspace .
  stevedore mcp --http 127.0.0.1:8931 --token alice=file:alice.token --token bob=env:BOB_TOKEN
  stevedore mcp --server nats://bus.example.com --http 0.0.0.0:8931 --token team=file:team.token

To keep the big results of other MCP servers out of the prompt, see "stevedore mcp wrap", and
"stevedore mcp install", which wraps the servers that a host already has.`

type mcpOptions struct {
	process.Options
	http    mcpHTTP
	session string
	wait    time.Duration
	NoSync  bool
}

func newMCPCommand() *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Offer the tools of all workers to MCP clients",
		Long:  mcpHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveMCP(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.AddFlags(flags)
	cli.AddSettingsOf(flags, &o, struct {
		NoSync bool `flag:"no-sync" help:"let a server in this process acknowledge messages before they are synced to the disk"`
	}{}, "")
	cli.AddSettings(flags, &o.http)
	token := flags.Lookup("token")
	token.Value = tokenFlag{token.Value, &o.http.tokens}
	token.Usage = httpTokenUsage + ". A value of another form is the token for NATS"
	cli.NoTopic(token)
	flags.StringVar(&o.session, "session", "", "`SESSION` of the client; default a new one")
	flags.DurationVar(&o.wait, "wait", 50*time.Second, "`TIME` that a client without tasks waits for a result")
	cli.CommonFlags(cmd, "server", "context", "data", "workspace", "http", "token", "session", "wait", "mcp", "ask")
	cmd.AddCommand(newMCPWrapCommand(), newMCPInstallCommand(), newMCPUninstallCommand(), newMCPStatusCommand())
	return cmd
}

// tokenFlag is --token. For NATS, the flag has one value, as in the nats CLI; a value for
// --http names its session and a source.
type tokenFlag struct {
	pflag.Value // for NATS
	sessions    *[]string
}

// Set implements pflag.Value.
func (f tokenFlag) Set(value string) error {
	if _, source, ok := strings.Cut(value, "="); ok && (strings.HasPrefix(source, "file:") || strings.HasPrefix(source, "env:")) {
		*f.sessions = append(*f.sessions, value)
		return nil
	}
	return f.Value.Set(value)
}

func serveMCP(ctx context.Context, o mcpOptions, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if o.wait <= 0 {
		return cli.Exit(cli.ExitUsage, "--wait %s: want more than 0s", o.wait)
	}
	o.session = cmp.Or(o.session, "mcp-"+strings.ToLower(rand.Text()[:16]))
	guard, err := o.http.guard(o.session, o.Connection.Data, stderr)
	if err != nil {
		return err
	}
	if guard != nil {
		limitMemory() // the SDK allocates 270 KB for each request, and little of it stays
	}
	parts := []func(context.Context) error{}
	var address atomic.Value
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !o.Connection.External() {
		address.Store("127.0.0.1:0")
		parts = append(parts, func(ctx context.Context) error { return keepWorker(ctx, o, &address, log, stderr) })
	}
	parts = append(parts, func(ctx context.Context) error {
		defer cancel() // the client is gone: stop the worker, too
		b, err := connectMCP(ctx, o, log)
		if err != nil {
			return err
		}
		defer b.Close()
		if !o.Connection.External() {
			if err := o.CheckJoined(); err != nil {
				return err
			}
		}
		address.Store(b.Conn().ConnectedAddr())
		g := mcp.New(b, mcp.Config{Version: cli.ReadVersion().Version, Wait: o.wait, Log: log})
		defer g.Close()
		return process.Together(ctx, g.Run, func(ctx context.Context) error {
			defer cancel()
			if guard != nil {
				return o.http.serve(ctx, guard.Handler(g.Handler()), func() error {
					if !b.Conn().IsConnected() {
						return errors.New("the gateway is not connected to the bus")
					}
					return nil
				}, g.Close, log, stderr)
			}
			// Each call is answered after --wait, so all are when the limit is over. They go on.
			link := wrap.Draining(wrap.NewStream(stdin, stdout, nil), o.wait+10*time.Second, g.Close)
			err := g.Stdio(ctx, o.session, wrap.Transport{Link: link})
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return nil
			}
			return err
		})
	})
	return process.Together(ctx, parts...)
}

// startTimeout is how long the server and the worker of this process may take to start.
const startTimeout = 30 * time.Second

// connectMCP connects to the bus. It waits for a server that this process starts.
func connectMCP(ctx context.Context, o mcpOptions, log zerolog.Logger) (*bus.Bus, error) {
	for end := time.Now().Add(startTimeout); ; {
		b, err := o.Connection.Connect(ctx, "stevedore mcp", log)
		if err == nil || o.Connection.External() || time.Now().After(end) || !errors.Is(err, bus.ErrUnreachable) {
			return b, err
		}
		if tools.Sleep(ctx, 20*time.Millisecond) != nil {
			return nil, ctx.Err()
		}
	}
}

// keepWorker runs a server and a worker in this process while no other process does in
// the data directory. The clients of a process that ended find the next one at the same
// address.
func keepWorker(ctx context.Context, o mcpOptions, address *atomic.Value, log zerolog.Logger, stderr io.Writer) error {
	for {
		if locked, err := o.Connection.DataLocked(); err != nil {
			return err
		} else if !locked {
			err := runMCPWorker(ctx, o, address.Load().(string), log, stderr)
			if ctx.Err() != nil {
				return err
			}
			if again, lockErr := o.Connection.DataLocked(); err != nil && (lockErr != nil || !again) {
				return err // it is not because another process was faster
			}
		}
		if tools.Sleep(ctx, 300*time.Millisecond) != nil {
			return nil
		}
	}
}

func runMCPWorker(ctx context.Context, o mcpOptions, listen string, log zerolog.Logger, stderr io.Writer) (err error) {
	server, closeServer, err := process.Embed(embedded.Config{Dir: o.Connection.Data, Listen: listen, NoSync: o.NoSync, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	o.OwnServer = server
	b, err := bus.Connect(ctx, server.ClientConfig(o.BusConfig(log)))
	if err != nil {
		return err
	}
	defer b.Close()
	return o.Run(ctx, b, log, process.Console(stderr, log), func() (func() error, error) {
		return o.PublishServer(server.URL())
	})
}

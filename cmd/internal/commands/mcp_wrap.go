package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/command"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wrap"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/cmd/internal/savings"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/tables"
)

const mcpWrapHelp = `Put a proxy in front of any MCP server. The proxy passes everything on unchanged, except
for big tool results and resources: it stores these, gives the client a short reference,
and adds the tool read_result, which reads them by lines, with grep, with jq and in pages.
What is big depends on the host: the proxy knows the limits of Claude Code, Codex, Copilot
CLI, Gemini CLI, opencode and Qwen Code. --offload-threshold replaces them.

In the configuration of an MCP host, put "stevedore mcp wrap --" before the command:

  stevedore mcp wrap -- npx -y @modelcontextprotocol/server-filesystem .
  stevedore mcp wrap --header Authorization=file:token https://mcp.example.com/mcp
  stevedore mcp wrap --http 127.0.0.1:8931 --token alice=file:alice.token -- npx -y some-server

With - in place of the server, a call of any tool returns its arguments. An agent framework
stores the results of its own tools with it: see integration/node/frameworks.mjs.

Results are stored in --data; no other process is needed. Each start is a session of
its own, unless --session names one. The server gets the environment of this command,
without the variables of Stevedore and NATS.

With --http, each request needs "Authorization: Bearer TOKEN". The token decides whose
results a client can read. Each session of a client has its own process of the server;
clients without sessions (revision 2026-07-28) share one for each token.

If the server ends, it is started again and the session goes on. A tool call that it was
running is repeated only if the tool is annotated as read-only or idempotent.`

type mcpWrapOptions struct {
	Connection cli.Connection
	Logging    cli.Logging
	Store      process.DiskStoreOptions
	Offload    offload.Config
	http       mcpHTTP
	session    string
	headers    []string
	tools      string
	Timeout    time.Duration
	Background time.Duration
}

// mcpWrapSettings declares settings of mcpWrapOptions.
type mcpWrapSettings struct {
	Timeout    time.Duration `flag:"call-timeout" default:"10m" min:"1ms" unit:"TIME" help:"TIME after which a request without response or progress is cancelled"`
	Background time.Duration `flag:"background-after" min:"0s" unit:"TIME" help:"TIME after which a call goes on in the background; 0 means never"`
}

func newMCPWrapCommand() *cobra.Command {
	var o mcpWrapOptions
	cmd := &cobra.Command{
		Use:   "wrap [flags] URL | - | -- COMMAND [ARGS...]",
		Short: "Keep the big results of any MCP server out of the prompt",
		Long:  mcpWrapHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Exit(cli.ExitUsage, "the command or the URL of the MCP server is missing; usage: %s", cmd.UseLine())
			}
			if cmd.Flags().Changed("tools") && o.tools != "one" && o.tools != "all" {
				return cli.Exit(cli.ExitUsage, "--tools %q: want one or all", o.tools)
			}
			o.Offload.InlineChars = process.InlineChars(o.Offload)
			if !cmd.Flags().Changed("offload-threshold") {
				o.Offload.Threshold, o.Offload.InlineChars = 0, 0 // the host decides
			}
			return mcpWrap(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the flags after the command are the command's
	o.Connection.AddDataFlag(flags, "the stored results")
	o.Logging.AddFlags(flags)
	cli.AddSettings(flags, &o.http)
	flags.StringArrayVar(&o.http.tokens, "token", nil, httpTokenUsage)
	flags.StringVar(&o.session, "session", "", "`SESSION` of the stored results; default a new one, so that only this process can read them")
	cli.AddSettingsOf(flags, &o, mcpWrapSettings{}, "")
	flags.StringArrayVar(&o.headers, "header", nil, "`NAME=VALUE` of a header for each request to the URL; for a secret, VALUE is env:VARIABLE or file:PATH")
	flags.StringVar(&o.tools, "tools", "", "`one or all`: add one tool that reads stored results, or the seven of a worker, whose "+
		"definitions are part of every request; default one, in Claude Code and opencode after the first result was stored, and none in "+
		"Codex and Gemini CLI, whose own tools can read")
	cli.AddSettingsOf(flags, &o.Store, o.Store, cli.TopicOffloading)
	process.AddOffloadFlags(flags, &o.Offload)
	return cmd
}

func mcpWrap(ctx context.Context, o mcpWrapOptions, argv []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return err
	}
	if o.Background >= o.Timeout {
		return cli.Exit(cli.ExitUsage, "--background-after %s: want 0s (never), or less than --call-timeout (%s)", o.Background, o.Timeout)
	}
	if err := checkName(o.session); err != nil {
		return err
	}
	server, name, err := o.server(argv, stderr)
	if err != nil {
		return err
	}
	late := o.tools == "" && o.session == "" && o.http.Address == "" // otherwise there may be results, or a client on another machine
	o.session = cmp.Or(o.session, "mcp-"+strings.ToLower(rand.Text()[:16]))
	guard, err := o.http.guard(o.session, o.Connection.Data, stderr)
	if err != nil {
		return err
	}
	store, closeStore, err := o.Store.OpenDisk(&o.Connection)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	databases := tables.NewCache("")
	defer func() { err = errors.Join(err, databases.Close()) }()
	if o.Offload.Log = log; log.GetLevel() > zerolog.DebugLevel { // hosts show what the proxy logs
		o.Offload.Log = log.Level(zerolog.WarnLevel)
	}
	pool := process.NewPool()
	o.Offload.Pool = pool
	proxy := func(session string) wrap.Config {
		return wrap.Config{
			Name: name, Session: session, Store: store, Offload: o.Offload, Family: o.tools == "all", LateTools: late,
			ReadCommand: programName() + " read" + placeOf(o.session, o.Connection.Data),
			CallTimeout: o.Timeout, BackgroundAfter: o.Background, Log: log,
			Reader: offload.ReaderConfig{Pool: pool, SQLCache: databases},
			Server: server, ContentIDs: name == "",
			Count: func(c wrap.Count) {
				if err := savings.Add(o.Connection.Data, savings.Line{Host: c.Client, Tool: c.Tool, Whole: c.Whole, Shown: c.Shown, Read: c.Read}); err != nil {
					log.Debug().Err(err).Msg("cannot count a result")
				}
			},
		}
	}
	if guard != nil {
		h := wrap.NewHandler(wrap.HandlerConfig{Log: log, Proxy: proxy, Identity: func(r *http.Request) (identity, owner string) {
			owner = httpauth.Identity(r.Context())
			return mcp.SessionOf(owner, r), owner
		}})
		return o.http.serve(ctx, guard.Handler(h), func() error { return nil }, h.Close, log, stderr)
	}
	err = wrap.Run(ctx, wrap.NewStream(stdin, stdout, nil), proxy(o.session))
	if errors.Is(err, wrap.ErrPermanent) {
		return cli.Exit(cli.ExitUsage, "%w", err)
	}
	return err
}

// server returns what starts the server, or connects to it, and its name in errors.
func (o *mcpWrapOptions) server(argv []string, stderr io.Writer) (open func(context.Context) (wrap.Link, error), name string, err error) {
	if len(argv) == 1 && argv[0] == "-" {
		return func(context.Context) (wrap.Link, error) { return wrap.NewEcho(), nil }, "", nil
	}
	if !strings.HasPrefix(argv[0], "http://") && !strings.HasPrefix(argv[0], "https://") {
		if len(o.headers) > 0 {
			return nil, "", cli.Exit(cli.ExitUsage, "--header is for a server at a URL")
		}
		return func(context.Context) (wrap.Link, error) {
			env := slices.DeleteFunc(os.Environ(), hosts.HiddenName)
			return wrap.StartProgram(command.Config{Argv: argv, Env: env, Stderr: stderr, Grace: serverGrace})
		}, command.Name(argv), nil
	}
	u, err := url.Parse(argv[0])
	if err != nil || u.Host == "" || len(argv) > 1 {
		return nil, "", cli.Exit(cli.ExitUsage, "want one URL, such as https://mcp.example.com/mcp")
	}
	header := http.Header{}
	for _, given := range o.headers {
		name, source, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, "", cli.Exit(cli.ExitUsage, "--header: want NAME=VALUE")
		}
		value, err := process.ReadSecret(source)
		if err != nil {
			return nil, "", cli.Exit(cli.ExitUsage, "--header %s: %w", name, err)
		}
		header.Set(name, value)
	}
	return func(context.Context) (wrap.Link, error) { return wrap.NewHTTP(argv[0], header, "--header"), nil }, u.Host, nil
}

// serverGrace is how long a server may take to exit after the end of its input, and
// again after SIGTERM. Hosts kill this process after two seconds.
const serverGrace = 900 * time.Millisecond

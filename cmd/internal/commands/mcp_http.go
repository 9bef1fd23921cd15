package commands

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

// mcpHTTP are the flags of an MCP server over HTTP.
type mcpHTTP struct {
	Address string   `flag:"http" unit:"HOST:PORT" help:"HOST:PORT to serve HTTP on, at the path /mcp, instead of stdin and stdout"`
	Hosts   []string `flag:"allow-host" split:"," unit:"NAME" help:"NAMEs that requests may have in the header Host, in addition to localhost"`
	tokens  []string
}

const httpTokenUsage = "`NAME=file:PATH` or NAME=env:VARIABLE of a bearer token for --http and of the session that it opens, may be repeated; " +
	"default the token in the file mcp.token of --data, which is created, for the session of --session"

// guard returns the guard of the HTTP endpoint; nil without --http.
func (o *mcpHTTP) guard(session, data string, stderr io.Writer) (*httpauth.Guard, error) {
	switch {
	case o.Address != "":
	case len(o.tokens) > 0:
		return nil, cli.Exit(cli.ExitUsage, "--token is for --http; over stdin and stdout, --session names the session")
	case len(o.Hosts) > 0:
		return nil, cli.Exit(cli.ExitUsage, "--allow-host is for --http; give --http HOST:PORT, too")
	default:
		return nil, nil
	}
	address, loopback, err := httpauth.CheckAddress(o.Address)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--http: %w", err)
	}
	o.Address = address
	cfg := httpauth.Config{Tokens: map[string]string{}, Hosts: o.Hosts}
	for _, given := range o.tokens {
		name, source, ok := strings.Cut(given, "=")
		if !ok || !tools.IsToken(name) || strings.Contains(name, "--") || tools.Token(name) != name {
			return nil, cli.Exit(cli.ExitUsage, "--token: want NAME=file:PATH or NAME=env:VARIABLE, with a NAME of the form %s without --", tools.TokenForm)
		}
		token, err := process.ReadSecret(source)
		if err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--token %s: %w", name, err)
		}
		if other, twice := cfg.Tokens[token]; twice {
			return nil, cli.Exit(cli.ExitUsage, "--token: %s and %s have the same token", other, name)
		}
		cfg.Tokens[token] = name
	}
	if len(o.tokens) == 0 {
		if !loopback {
			return nil, cli.Exit(cli.ExitUsage, "--http %s: other machines can reach this address; give --token NAME=file:PATH", o.Address)
		}
		file := filepath.Join(data, "mcp.token")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		token, err := tokenIn(file)
		if err != nil {
			return nil, cli.Exit(cli.ExitUsage, "the token of --http: %w", err)
		}
		cfg.Tokens[token] = session
		fmt.Fprintf(stderr, "The token for Authorization: Bearer is in %s\n", file) // this output is often a log
	}
	g, err := httpauth.New(cfg)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--token: %w", err)
	}
	return g, nil
}

// serve serves h at /mcp until ctx ends. It calls closing before it ends the requests.
func (o *mcpHTTP) serve(ctx context.Context, h http.Handler, health func() error, closing func(), log zerolog.Logger, stderr io.Writer) error {
	l, err := httpauth.Listen(ctx, o.Address)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "--http: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.HandleFunc("GET /healthz", process.AnswerProbe(health))
	failed := make(chan error, 1)
	stop := httpauth.Serve(l, mux, func(err error) { failed <- err })
	fmt.Fprintf(stderr, "MCP is served at http://%s/mcp\n", l.Addr())
	log.Info().Str("address", l.Addr().String()).Msg("MCP server is listening")
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	closing()
	stop()
	return err
}

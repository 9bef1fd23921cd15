package commands

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

const healthHelp = `Ask a worker of this machine whether it works, for the health check of a container that
has no other program. --health, or STEVEDORE_HEALTH, is the address that the worker has: a
worker answers only if it was started with --health. The answer names the worker.
The exit code is 0 if the worker can work, and 1 if it must be restarted or does not
answer. With --ready, the exit code is 0 only while the worker accepts calls.

  stevedore health --health 127.0.0.1:8780
  stevedore health --ready`

// healthTimeout is the time that a worker gets to answer.
const healthTimeout = 4 * time.Second

func newHealthCommand() *cobra.Command {
	server := struct {
		Address string `flag:"health" default:"127.0.0.1:8780" unit:"HOST:PORT" help:"HOST:PORT of the worker's health server"`
	}{}
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a worker of this machine whether it works, for health checks of containers",
		Long:  healthHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			answer, err := askHealth(cmd.Context(), server.Address, path)
			if err != nil {
				return err
			}
			return cli.Line(cmd.OutOrStdout(), "%s", answer)
		},
	}
	cli.AddSettings(cmd.Flags(), &server)
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether the worker accepts calls")
	return cmd
}

// askHealth returns the answer of the health server at an address, or an error if the
// process is not healthy.
func askHealth(ctx context.Context, address, path string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", cli.Exit(cli.ExitUsage, "--health %q: want HOST:PORT, such as 127.0.0.1:8780", address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // the worker listens on all addresses
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return "", cli.Exit(cli.ExitUsage, "--health %q: %w", address, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	resp, err := client.Do(r)
	if err != nil {
		return "", cli.Exit(cli.ExitFailed, "no worker answers at %s: %w; a worker answers there only if it was started with --health %s", address, err, address)
	}
	defer resp.Body.Close()
	worker := resp.Header.Get(process.WorkerHeader)
	if worker == "" {
		return "", cli.Exit(cli.ExitFailed, "what answers at %s is no worker, but another program; name the address of the worker with --health", address)
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", cli.Exit(cli.ExitFailed, "the worker %s at %s answers %d: %s", worker, address, resp.StatusCode, tools.OneLine(text))
	}
	return fmt.Sprintf("%s: worker %s, %s", text, worker, resp.Header.Get("Server")), nil
}

package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/otlp"
)

// Main runs the program stevedore with the arguments of the process, and exits.
func Main() { cli.Main(run) }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == cli.NATSPluginFlag {
		if err := cli.WriteNATSPlugin(stdout, newRoot()); err != nil {
			fmt.Fprintln(stderr, "stevedore:", err)
			return cli.ExitFailed
		}
		return cli.ExitOK
	}
	ctx, stop, err := otlp.Start(ctx, "stevedore-worker", cli.ReadVersion().Version)
	if err != nil {
		fmt.Fprintln(stderr, "stevedore:", err)
		return cli.ExitUsage
	}
	code := cli.Run(ctx, newRoot(), args, stdin, stdout, stderr)
	if err := stop(); err != nil {
		fmt.Fprintln(stderr, "stevedore:", err)
	}
	return code
}

// Command heartbeat is the program stevedore-heartbeat, which schedules the heartbeat: see
// stevedore-heartbeat --help.
package main

import (
	"context"
	"io"
	"os"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

func main() {
	os.Exit(run(cli.SignalContext(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot(), args, stdin, stdout, stderr)
}

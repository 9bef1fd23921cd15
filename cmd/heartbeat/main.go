// Command heartbeat is the program stevedore-heartbeat, which schedules the heartbeat: see
// stevedore-heartbeat --help.
package main

import (
	"context"
	"io"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

func main() {
	cli.Main(run)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot(), args, stdin, stdout, stderr)
}

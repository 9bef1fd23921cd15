package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/demo"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const demoHelp = `Show the main features on the files of --workspace, with a NATS server and a worker in
this process: the worker offloads a big tool result, the model sees a reference and reads
parts of the result back, an async call notifies the user, and an agent does all of
this itself. The demo needs no network and no key: its model is a script, unless --model
names another one. The demo deletes its data. If the current directory has few files, the
demo makes a sample log.`

func newDemoCommand() *cobra.Command {
	var o process.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main features on the files of this directory",
		Long:  demoHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Connection.External() {
				return errOwnServer("demo")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Minute)
			defer cancel()
			return demo.Run(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	o.Logging.Level = "error"
	cmd.Flags().Lookup("log-level").DefValue = "error"
	cli.CommonFlags(cmd, "workspace", "model", "api-key-file", "base-url")
	return cmd
}

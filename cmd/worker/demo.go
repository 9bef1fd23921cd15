package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/demo"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const demoHelp = `Start everything on a temporary data directory and do the main job once, on the
files of --workspace: a tool's big result is made by a worker, offloaded, shown
as a model would see it, read back by lines and by grep over the bus; a job in
the background reports to the console; and an agent does it all on its own. Its
model is a script, or Anthropic's if ANTHROPIC_API_KEY is set, or the one that
--model and --base-url name. Nothing is left behind.

` + cli.ExitCodesHelp

func newDemoCommand() *cobra.Command {
	var o process.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work, on the files of this directory",
		Long:  demoHelp,
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Minute)
			defer cancel()
			return demo.Run(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	o.Logging.Level = "error"
	cmd.Flags().Lookup("log-level").DefValue = "error"
	return cmd
}

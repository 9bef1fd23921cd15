package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
)

// jqProcess is the hidden command that a worker starts for each jq query.
const jqProcess = "jq-process"

func newJQProcessCommand() *cobra.Command {
	return &cobra.Command{
		Use:    jqProcess,
		Short:  "Run one jq query for a worker",
		Hidden: true,
		Args:   cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return offload.ServeJQ(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// jqCommand starts this program. Without a way to find it, queries run in the
// worker.
func jqCommand() []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, jqProcess}
}

package process

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
)

const jqProcess = "jq-process"

// NewJQCommand returns the hidden command that a worker starts for each jq query.
func NewJQCommand() *cobra.Command {
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

// JQCommand returns the command line of NewJQCommand. It returns nil if the path of
// this program is unknown; the worker then runs queries in its own process.
func JQCommand() []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, jqProcess}
}

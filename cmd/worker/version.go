package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := process.ReadVersion()
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), v)
			}
			commit := cmp.Or(v.Commit, "unknown")
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "worker %s (commit %s, %s, %s)\n", v.Version, commit, v.Go, v.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

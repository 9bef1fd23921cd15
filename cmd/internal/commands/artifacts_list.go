package commands

import (
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
)

// printArtifacts prints a listing of artifacts, the newest last.
func printArtifacts(cmd *cobra.Command, l *offload.Listing) error {
	return client.PrintTable(cmd.OutOrStdout(), l.Artifacts, "No artifacts in this session.",
		[]string{"artifact", "tool", "type", "size", "lines", "tokens", "created", "expires"},
		func(a offload.ListedArtifact) []any {
			return []any{a.ID, dash(a.Metadata["tool_name"]), a.Type, bus.FormatBytes(a.Size), a.Lines, a.Tokens, a.CreatedAt, a.ExpiresAt}
		})
}

package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
)

// printArtifacts prints a listing of artifacts, the newest last.
func printArtifacts(o *client.Options, cmd *cobra.Command, answer client.Answer[*offload.Listing]) error {
	l := answer.Out
	if n := len(l.Artifacts); n < l.Count {
		fmt.Fprintf(cmd.ErrOrStderr(), "These are the newest %d of %d artifacts.\n", n, l.Count)
	}
	if o.JSON {
		return o.Print(cmd, answer.Body)
	}
	return client.PrintList(o, cmd.OutOrStdout(), l.Artifacts, "No artifacts in this session.",
		[]string{"artifact", "tool", "type", "size", "lines", "tokens", "created", "expires"},
		func(a offload.ListedArtifact) []any {
			return []any{a.ID, dash(a.Metadata["tool_name"]), a.Type, bus.FormatBytes(a.Size), a.Lines, a.Tokens, a.CreatedAt, a.ExpiresAt}
		})
}

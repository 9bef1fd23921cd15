package commands

import (
	"fmt"
	"io"
	"slices"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
)

// printArtifacts prints a listing of artifacts, of one session or of all, the newest last.
func printArtifacts(o *client.Options, out io.Writer, l *offload.Listing, all bool) error {
	columns, empty := []string{"artifact", "tool", "type", "size", "lines", "tokens", "created", "expires"}, "No artifacts."
	if all {
		columns = slices.Insert(columns, 1, "session")
	} else {
		empty = fmt.Sprintf("No artifacts in the session %s; for those of all: %s", o.Session, o.Connection.Command("artifacts", "ls", "--all"))
	}
	return client.PrintTable(out, l.Artifacts, empty, columns, func(a offload.ListedArtifact) []any {
		if a.Truncated {
			a.Type += " (cut)"
		}
		row := []any{a.ID, dash(a.Metadata["tool_name"]), a.Type, bus.FormatBytes(a.Size), a.Lines, a.Tokens, a.CreatedAt, a.ExpiresAt}
		if all {
			row = slices.Insert(row, 1, any(a.Session))
		}
		return row
	})
}

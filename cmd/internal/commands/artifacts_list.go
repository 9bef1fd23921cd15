package commands

import (
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
)

// printArtifacts prints a listing of artifacts, the newest last.
func printArtifacts(o *client.Options, out io.Writer, l *offload.Listing) error {
	empty := fmt.Sprintf("No artifacts in the session %s; for those of another one, add --session (see %s).", o.Session,
		o.Connection.Command("sessions", "ls"))
	return client.PrintTable(out, l.Artifacts, empty,
		[]string{"artifact", "tool", "type", "size", "lines", "tokens", "created", "expires"},
		func(a offload.ListedArtifact) []any {
			return []any{a.ID, dash(a.Metadata["tool_name"]), a.Type, bus.FormatBytes(a.Size), a.Lines, a.Tokens, a.CreatedAt, a.ExpiresAt}
		})
}

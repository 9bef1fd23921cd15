package commands

import (
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/offload"
)

// printArtifacts prints a listing of artifacts, the newest last.
func printArtifacts(o *client.Options, answer client.Answer[*offload.Listing], out, stderr io.Writer) error {
	l := answer.Out
	if n := len(l.Artifacts); n < l.Count {
		fmt.Fprintf(stderr, "These are the newest %d of %d artifacts.\n", n, l.Count)
	}
	if o.JSON {
		return o.Print(out, answer.Body)
	}
	return client.PrintList(o, out, l.Artifacts, "No artifacts in this session.",
		[]string{"artifact", "tool", "type", "size", "lines", "tokens", "created", "expires"},
		func(a offload.ListedArtifact) []any {
			return []any{a.ID, dash(a.Metadata["tool_name"]), a.Type, bus.FormatBytes(a.Size), a.Lines, a.Tokens, a.CreatedAt, a.ExpiresAt}
		})
}

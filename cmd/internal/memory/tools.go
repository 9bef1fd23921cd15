package memory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Names of the tools.
const (
	ToolRemember = "remember"
	ToolRecall   = "recall"
	ToolForget   = "forget"
)

// maxRecalled is how many notes a model gets at once; maxChars bounds their text.
const (
	maxRecalled = 50
	maxChars    = 14_000
)

type rememberArgs struct {
	Text string `json:"text" jsonschema:"a fact in one or two sentences that makes sense on its own; at most 2,000 bytes"`
}

type recallArgs struct {
	Query string `json:"query,omitempty" jsonschema:"words of the notes; default the newest notes"`
}

type forgetArgs struct {
	ID string `json:"id" jsonschema:"the id of the note, as recall shows it"`
}

// Tools returns the tools remember, recall and forget. ownerOf returns the owner of the notes
// of a session.
func (s *Store) Tools(ownerOf func(session string) string) []tools.Tool {
	return []tools.Tool{
		tools.MustTool(ToolRemember, "Note a fact for later conversations with this user, such as a preference or a decision.",
			func(ctx context.Context, call tools.Call, in rememberArgs) *tools.Result {
				id, err := s.Add(ctx, ownerOf(call.Session), call.SessionToken(), call.SessionToken()+"."+call.IDToken(), in.Text)
				if err != nil {
					return tools.SilentFailure(err)
				}
				return tools.SilentResult("Noted as " + id + ".")
			}).WithEffect(tools.Idempotent),
		tools.MustTool(ToolRecall, "Search the notes of earlier conversations with this user. Do so if the user refers to something that you do not know.",
			func(ctx context.Context, call tools.Call, in recallArgs) *tools.Result {
				notes, err := s.Visible(ctx, ownerOf(call.Session))
				if err != nil {
					return tools.SilentFailure(err)
				}
				return tools.SilentResult(recalled(search(notes, in.Query), len(notes)))
			}).WithEffect(tools.Idempotent).WithoutOffload(),
		tools.MustTool(ToolForget, "Remove a note that is wrong or that the user wants removed.",
			func(ctx context.Context, call tools.Call, in forgetArgs) *tools.Result {
				if err := s.Remove(ctx, ownerOf(call.Session), in.ID); err != nil {
					return tools.SilentFailure(err)
				}
				return tools.SilentResult("Forgotten.")
			}).WithEffect(tools.Idempotent),
	}
}

// recalled lists the notes that were found among all.
func recalled(found []Note, all int) string {
	if len(found) == 0 {
		return fmt.Sprintf("No note has these words; there are %d notes.", all)
	}
	var b strings.Builder
	for i, n := range found {
		line := n.line()
		if i == maxRecalled || b.Len()+len(line) > maxChars {
			fmt.Fprintf(&b, "%d more notes match; add words to the query.\n", len(found)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

func (n Note) line() string {
	where := "session " + n.Session
	switch {
	case n.Unreadable:
		where = "of an unknown format"
	case n.Session == "":
		where = "by the operator"
	}
	if n.Owner == Shared {
		where += ", for all users"
	}
	return fmt.Sprintf("%s (%s, %s): %s\n", n.ID, n.At.Format(time.DateOnly), where, tools.OneLine(n.Text))
}

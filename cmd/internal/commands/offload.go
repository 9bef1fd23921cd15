package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload/chat"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// newOffloadCommand returns "stevedore offload": filters for programs in any language.
func newOffloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "offload",
		Short: "Move tool results out of chat messages into files",
		Long: `Move tool results out of chat messages into files, and replace them by the path of the
file. The command reads a message or a history as JSON from stdin and prints the shorter
one to stdout. It needs no server and no configuration.

If a file could not be written (exit code 1), or the flags or the input are bad (2), stdout is
empty and stderr has the reason.`,
		RunE: func(*cobra.Command, []string) error {
			return cli.Exit(cli.ExitUsage, "name the type of the input: message or history (see --help)")
		},
	}
	cmd.AddCommand(newOffloadMessageCommand(), newOffloadHistoryCommand())
	return cmd
}

// maxInput limits the length of stdin, because the command holds all of it in memory.
const maxInput = 1 << 30

func readOffloadInput(stdin io.Reader, what string) ([]byte, error) {
	var buf bytes.Buffer
	_, err := buf.ReadFrom(io.LimitReader(stdin, maxInput+1))
	data := buf.Bytes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s from stdin: %w", what, err)
	case len(data) > maxInput:
		return nil, cli.Exit(cli.ExitUsage, "stdin has more than %d bytes, the most that is accepted", maxInput)
	case len(data) == 0:
		return nil, cli.Exit(cli.ExitUsage, "stdin is empty: pipe %s in, as JSON", what)
	}
	return data, nil
}

// jsString is encoded as JSON.stringify does; encoding/json escapes more characters.
type jsString string

func (s jsString) MarshalJSON() ([]byte, error) { return []byte(chat.Quote(string(s))), nil }

func jsStrings(ss []string) []jsString {
	all := make([]jsString, len(ss))
	for i, s := range ss {
		all[i] = jsString(s)
	}
	return all
}

// dryRun is the writer of a dry run. It records the writes and does not use the disk.
type dryRun []dryRunWrite

type dryRunWrite struct {
	Path    jsString `json:"path"`
	Content jsString `json:"content"`
}

func (r *dryRun) WriteFile(_ context.Context, path, content string) error {
	*r = append(*r, dryRunWrite{jsString(path), jsString(content)})
	return nil
}

// CreateFile never finds an existing file, because the names within a run are distinct.
func (r *dryRun) CreateFile(ctx context.Context, path, content string) error {
	return r.WriteFile(ctx, path, content)
}

// printOffload prints v in one write, so that stdout is complete or empty.
func printOffload(w io.Writer, v any) error {
	data, err := jsonform.Encode(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload/chat"
)

type offloadMessageFlags struct {
	session, dir        string
	dryRun, keepPairing bool
	minChars            int
}

func newOffloadMessageCommand() *cobra.Command {
	var flags offloadMessageFlags
	cmd := &cobra.Command{
		Use:   "message --session S --dir D",
		Short: "Offload one message with a tool result",
		Long: `Read one message from stdin, write its content to DIR/SESSION/TOOL_USE_ID.md, and
print an object with three fields:

  message     the message; its content is "[Tool result offloaded to file: PATH]"
  freedChars  the difference in length, in UTF-16 code units
  file        the path of the file

A string is written unchanged, an array of blocks as compact JSON. The id is that of the
first tool_result block (Anthropic) or the tool_call_id of a message with the role "tool"
(OpenAI), or "unknown" if there is none.
An existing file with this id is replaced, so use a separate session for each message
without an id. Your program decides which messages to offload, or --min-chars does.

Chat APIs require a tool_result with the id of each tool_use. --keep-pairing keeps the
blocks and writes the content of each tool_result to its own file. It never replaces a
file, and adds "files" with all paths to the output.`,
		Example: `  echo '{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1",
    "content":"a very long text"}]}' |
  stevedore offload message --session s1 --dir .offload --keep-pairing`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOffloadMessage(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.session, "session", "", "`NAME` of the conversation; a folder below --dir (required)")
	f.StringVar(&flags.dir, "dir", "", "`DIR` of the files; created if missing (required)")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write no files; add \"writes\" to the output, with --dir unchanged")
	f.BoolVar(&flags.keepPairing, "keep-pairing", false, "keep the blocks and replace only the content in each tool_result")
	f.IntVar(&flags.minChars, "min-chars", 0, "`NUMBER` of UTF-16 code units; shorter contents are not offloaded")
	return cmd
}

func runOffloadMessage(cmd *cobra.Command, flags offloadMessageFlags) error {
	switch {
	case flags.session == "":
		return cli.Exit(cli.ExitUsage, "--session is missing: name the conversation, as in --session s1")
	case flags.dir == "":
		return cli.Exit(cli.ExitUsage, "--dir is missing: name the directory for the files, as in --dir .offload")
	case flags.minChars < 0:
		return cli.Exit(cli.ExitUsage, "--min-chars is %d; it must not be negative", flags.minChars)
	}
	data, err := readOffloadInput(cmd.InOrStdin(), "a message")
	if err != nil {
		return err
	}
	message, err := chat.ParseMessage(data)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "stdin: %w (a message is an object; for an array of messages use `stevedore offload history`)", err)
	}
	var out messageOutput
	res, err := offloadMessage(cmd.Context(), message, flags, &out.Writes)
	if errors.Is(err, chat.ErrNoContent) {
		return cli.Exit(cli.ExitUsage, "stdin: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w; check that --dir %q is writable and its disk is not full", err, flags.dir)
	}
	out.Message, out.FreedChars, out.File = res.Message, res.FreedChars, jsString(res.File)
	if flags.keepPairing {
		out.Files = jsStrings(res.Files)
	}
	return printOffload(cmd.OutOrStdout(), out)
}

func offloadMessage(ctx context.Context, m chat.Message, flags offloadMessageFlags, writes *dryRun) (chat.MessageResult, error) {
	if flags.dryRun {
		*writes = dryRun{}
	}
	switch {
	case flags.keepPairing && flags.dryRun:
		return chat.OffloadResultsTo(ctx, m, flags.session, flags.dir, flags.minChars, writes)
	case flags.keepPairing:
		return chat.OffloadResults(ctx, m, flags.session, flags.dir, flags.minChars)
	case m.Length() < flags.minChars:
		return chat.MessageResult{Message: m}, nil
	case flags.dryRun:
		return chat.OffloadMessageTo(ctx, m, flags.session, flags.dir, writes)
	}
	return chat.OffloadMessage(ctx, m, flags.session, flags.dir)
}

// messageOutput has the field names of the JavaScript module that the command replaces.
type messageOutput struct {
	Message    chat.Message `json:"message"`
	FreedChars int          `json:"freedChars"`
	File       jsString     `json:"file"`
	Files      []jsString   `json:"files,omitzero"`
	Writes     dryRun       `json:"writes,omitzero"`
}

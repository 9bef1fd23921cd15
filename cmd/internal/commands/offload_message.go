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
	Session     string `flag:"session" unit:"NAME" help:"NAME of the conversation; a folder below --dir (required)"`
	Dir         string `flag:"dir" unit:"DIR" help:"DIR of the files; created if missing (required)"`
	DryRun      bool   `flag:"dry-run" help:"write no files; add writes to the output, with --dir unchanged"`
	KeepPairing bool   `flag:"keep-pairing" help:"keep the blocks and replace only the content in each tool_result"`
	MinChars    int    `flag:"min-chars" min:"0" unit:"NUMBER" help:"NUMBER of UTF-16 code units; shorter contents are not offloaded"`
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
	cli.AddOptions(cmd.Flags(), &flags)
	return cmd
}

func runOffloadMessage(cmd *cobra.Command, flags offloadMessageFlags) error {
	switch {
	case flags.Session == "":
		return cli.Exit(cli.ExitUsage, "--session is missing: name the conversation, as in --session s1")
	case flags.Dir == "":
		return cli.Exit(cli.ExitUsage, "--dir is missing: name the directory for the files, as in --dir .offload")
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
		return fmt.Errorf("%w; check that --dir %q is writable and its disk is not full", err, flags.Dir)
	}
	out.Message, out.FreedChars, out.File = res.Message, res.FreedChars, jsString(res.File)
	if flags.KeepPairing {
		out.Files = jsStrings(res.Files)
	}
	return printOffload(cmd.OutOrStdout(), out)
}

func offloadMessage(ctx context.Context, m chat.Message, flags offloadMessageFlags, writes *dryRun) (chat.MessageResult, error) {
	if flags.DryRun {
		*writes = dryRun{}
	}
	switch {
	case flags.KeepPairing && flags.DryRun:
		return chat.OffloadResultsTo(ctx, m, flags.Session, flags.Dir, flags.MinChars, writes)
	case flags.KeepPairing:
		return chat.OffloadResults(ctx, m, flags.Session, flags.Dir, flags.MinChars)
	case m.Length() < flags.MinChars:
		return chat.MessageResult{Message: m}, nil
	case flags.DryRun:
		return chat.OffloadMessageTo(ctx, m, flags.Session, flags.Dir, writes)
	}
	return chat.OffloadMessage(ctx, m, flags.Session, flags.Dir)
}

// messageOutput has the field names of the JavaScript module that the command replaces.
type messageOutput struct {
	Message    chat.Message `json:"message"`
	FreedChars int          `json:"freedChars"`
	File       jsString     `json:"file"`
	Files      []jsString   `json:"files,omitzero"`
	Writes     dryRun       `json:"writes,omitzero"`
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload/chat"
)

// newOffloadCommand returns `worker offload`: the chat forms of offloading, as
// filters for programs in any language.
func newOffloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "offload",
		Short: "Move tool results out of chat messages into files",
		Long: `Move tool results out of chat messages into files, and leave the path in their
place. A message or a history comes in on stdin as JSON, the light one goes out
on stdout. No server and no configuration is needed.

Exit status: 0 done, 1 a file could not be written, 2 bad flags or input. After
1 or 2 there is nothing on stdout, and the reason on stderr.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Exit(cli.ExitUsage, "unknown form %q: use message or history", args[0])
			}
			return cli.Exit(cli.ExitUsage, "name what comes in on stdin: message or history (see --help)")
		},
	}
	cmd.AddCommand(newOffloadMessageCommand(), newOffloadHistoryCommand())
	return cmd
}

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
		Long: `Read one message from stdin, write its content to
DIR/SESSION/TOOL_USE_ID.md, and print an object with three fields:

  message     the message; its content is "[Tool result offloaded to file: PATH]"
  freedChars  by how much the content became shorter, in UTF-16 code units
  file        the file

A string is written as it is, an array of blocks as compact JSON. The id is that
of the first tool_result, a block as in Anthropic's messages, or "unknown", as for
OpenAI's role "tool"; a file of that id is replaced, so give messages without an id
sessions of their own. Your loop decides what is too long; --min-chars can decide
it here.

Chat APIs want each tool_use answered by a tool_result with its id. With
--keep-pairing the blocks stay, each tool_result's content goes to a file of its
own, no file is ever replaced, and "files" lists them.`,
		Example: `  echo '{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1",
    "content":"a very long text"}]}' |
  worker offload message --session s1 --dir .offload --keep-pairing`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runOffloadMessage(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.session, "session", "", "conversation that the message belongs to; a folder below --dir (required)")
	f.StringVar(&flags.dir, "dir", "", "directory for the files; made if absent (required)")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing; add \"writes\" to the output, with --dir as it was given")
	f.BoolVar(&flags.keepPairing, "keep-pairing", false, "keep the blocks and replace only the content in each tool_result")
	f.IntVar(&flags.minChars, "min-chars", 0, "leave contents shorter than this, in UTF-16 code units, where they are")
	return cmd
}

func runOffloadMessage(cmd *cobra.Command, flags offloadMessageFlags) error {
	switch {
	case flags.session == "":
		return cli.Exit(cli.ExitUsage, "--session is missing: name the conversation, as in --session s1")
	case flags.dir == "":
		return cli.Exit(cli.ExitUsage, "--dir is missing: name the directory for the files, as in --dir .offload")
	case flags.minChars < 0:
		return cli.Exit(cli.ExitUsage, "--min-chars is %d; it can not be negative", flags.minChars)
	}
	data, err := readOffloadInput(cmd.InOrStdin(), "a message")
	if err != nil {
		return err
	}
	message, err := chat.ParseMessage(data)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "stdin: %w (a message is an object; for an array of messages use `worker offload history`)", err)
	}
	var out messageOutput
	res, err := offloadMessage(cmd.Context(), message, flags, &out.Writes)
	if errors.Is(err, chat.ErrNoContent) {
		return cli.Exit(cli.ExitUsage, "stdin: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w; check that --dir %q is writable and has room", err, flags.dir)
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

type offloadHistoryFlags struct {
	dir      string
	dryRun   bool
	minChars int
	minRatio float64
}

func newOffloadHistoryCommand() *cobra.Command {
	var flags offloadHistoryFlags
	cmd := &cobra.Command{
		Use:   "history --dir D",
		Short: "Offload the tool results of a whole conversation",
		Long: `Read an array of messages from stdin, oldest first, write the content of each
tool_result of 100 characters or more to DIR/tool-result-TOOL_USE_ID.md, and
print an object with four fields:

  messages        the messages; such a content is
                  "[Content offloaded to: ./tool-result-TOOL_USE_ID.md]"
  offloadedCount  how many results were offloaded
  freedChars      the sum of their lengths, in UTF-16 code units
  files           their files

A string is written as it is, blocks as indented JSON. No file is ever replaced:
a name that is taken gets -1, -2, ...; references are left as they are, so you can
pipe the "messages" through again as they grow. Blocks are those of Anthropic's
messages; a message with none, such as OpenAI's with the role "tool", stays as it is.

Environment: ` + chat.EnvMinChars + ` and ` + chat.EnvMinRatio + ` are the
defaults of --min-chars and --min-ratio; one that is no valid number is warned
of and passed over.`,
		Example: `  worker offload history --dir .offload < history.json > light.json
  jq .messages light.json | worker offload history --dir .offload
  worker offload history --dir .offload --min-chars 2000 --min-ratio 0.2 < history.json
  worker offload history --dir .offload --dry-run < history.json | jq .writes`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runOffloadHistory(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.dir, "dir", "", "directory for the files; made if absent (required)")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write nothing; add \"writes\" to the output, with --dir as it was given")
	f.Bool("keep-pairing", true, "a history always keeps its blocks; accepted for symmetry with message")
	f.IntVar(&flags.minChars, "min-chars", 100, "offload results of at least this length, in UTF-16 code units")
	f.Float64Var(&flags.minRatio, "min-ratio", 0, "leave the history as it is if less than this part of its characters, 0 to 1, can be offloaded")
	return cmd
}

func runOffloadHistory(cmd *cobra.Command, flags offloadHistoryFlags) error {
	if flags.dir == "" {
		return cli.Exit(cli.ExitUsage, "--dir is missing: name the directory for the files, as in --dir .offload")
	}
	if keep, err := cmd.Flags().GetBool("keep-pairing"); err != nil || !keep {
		return cli.Exit(cli.ExitUsage, "--keep-pairing=false: a history always keeps its blocks; offload single messages with `worker offload message`")
	}
	opts, err := historyOptions(cmd, flags)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "%w", err)
	}
	data, err := readOffloadInput(cmd.InOrStdin(), "a history")
	if err != nil {
		return err
	}
	messages, err := chat.ParseHistory(data)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "stdin: %w (a history is an array of messages; for one message use `worker offload message`)", err)
	}
	var out historyOutput
	var res chat.HistoryResult
	if flags.dryRun {
		out.Writes = dryRun{}
		res, err = chat.OffloadHistoryTo(cmd.Context(), messages, flags.dir, opts, &out.Writes)
	} else {
		res, err = chat.OffloadHistory(cmd.Context(), messages, flags.dir, opts)
	}
	if err != nil {
		return fmt.Errorf("%w; check that --dir %q is writable and has room", err, flags.dir)
	}
	out.Messages, out.OffloadedCount, out.FreedChars, out.Files = res.Messages, res.OffloadedCount, res.FreedChars, jsStrings(res.Files)
	return printOffload(cmd.OutOrStdout(), out)
}

// historyOptions lets flags that were given win over the environment.
func historyOptions(cmd *cobra.Command, flags offloadHistoryFlags) (chat.Options, error) {
	var opts chat.Options
	if cmd.Flags().Changed("min-chars") {
		opts.MinChars = &flags.minChars
	}
	if cmd.Flags().Changed("min-ratio") {
		opts.MinRatio = &flags.minRatio
	}
	if err := opts.Validate(); err != nil {
		return chat.Options{}, err
	}
	opts, err := opts.WithEnv(os.LookupEnv)
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "worker: warning: %v; going on with the default\n", err)
	}
	return opts, nil
}

// maxInput bounds what is read from stdin; everything is held in memory.
const maxInput = 1 << 30

func readOffloadInput(stdin io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
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

package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload/chat"
)

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
tool_result of 100 characters or more to DIR/tool-result-TOOL_USE_ID.md, and print an
object with four fields:

  messages        the messages; an offloaded content is
                  "[Content offloaded to: ./tool-result-TOOL_USE_ID.md]", whose
                  path is relative to DIR: let the model read there
  offloadedCount  the number of offloaded results
  freedChars      the sum of their lengths, in UTF-16 code units
  files           the absolute paths of their files

A string is written unchanged, blocks as indented JSON. Existing files are never
replaced: the command appends -1, -2, ... to the name. It skips contents that are already
offloaded, so you can pipe the growing "messages" through it again. It understands the
messages of Anthropic, OpenAI (Chat Completions and Responses), Gemini and the Vercel AI
SDK; the id of the call names the file. It refuses other formats with exit code 2.

Environment: ` + chat.EnvMinChars + ` and ` + chat.EnvMinRatio + ` are the
defaults of --min-chars and --min-ratio. A value outside of their range is an error.`,
		Example: `  stevedore offload history --dir .offload < history.json > light.json
  jq .messages light.json | stevedore offload history --dir .offload
  stevedore offload history --dir .offload --min-chars 2000 --min-ratio 0.2 < history.json
  stevedore offload history --dir .offload --dry-run < history.json | jq .writes`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runOffloadHistory(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.dir, "dir", "", "`DIR` of the files; created if missing (required)")
	f.BoolVar(&flags.dryRun, "dry-run", false, "write no files; add \"writes\" to the output, with --dir unchanged")
	f.IntVar(&flags.minChars, "min-chars", 100, "`NUMBER` of UTF-16 code units; shorter results are not offloaded")
	f.Float64Var(&flags.minRatio, "min-ratio", 0, "`FRACTION` of the characters, 0 to 1; if less can be offloaded, nothing is")
	return cmd
}

func runOffloadHistory(cmd *cobra.Command, flags offloadHistoryFlags) error {
	if flags.dir == "" {
		return cli.Exit(cli.ExitUsage, "--dir is missing: name the directory for the files, as in --dir .offload")
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
		if own := (map[string]json.RawMessage{}); json.Unmarshal(data, &own) == nil && own["messages"] != nil {
			return cli.Exit(cli.ExitUsage, "stdin is an output of this command; pipe it through `jq .messages` first")
		}
		return cli.Exit(cli.ExitUsage, "stdin: %w (a history is an array of messages; for one message use `stevedore offload message`)", err)
	}
	var out historyOutput
	var res chat.HistoryResult
	if flags.dryRun {
		out.Writes = dryRun{}
		res, err = chat.OffloadHistoryTo(cmd.Context(), messages, flags.dir, opts, &out.Writes)
	} else {
		res, err = chat.OffloadHistory(cmd.Context(), messages, flags.dir, opts)
	}
	if errors.Is(err, chat.ErrFormat) {
		return cli.Exit(cli.ExitUsage, "stdin: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w; check that --dir %q is writable and its disk is not full", err, flags.dir)
	}
	out.Messages, out.OffloadedCount, out.FreedChars, out.Files = res.Messages, res.OffloadedCount, res.FreedChars, jsStrings(res.Files)
	return printOffload(cmd.OutOrStdout(), out)
}

// historyOptions returns the options. Flags override the environment.
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
	return opts.WithEnv(os.LookupEnv)
}

// historyOutput has the field names of the JavaScript module that the command replaces.
type historyOutput struct {
	Messages       []chat.Message `json:"messages"`
	OffloadedCount int            `json:"offloadedCount"`
	FreedChars     int            `json:"freedChars"`
	Files          []jsString     `json:"files"`
	Writes         dryRun         `json:"writes,omitzero"`
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/tools"
)

const hookHelp = `The hook of a coding host: it reads an event on standard input. If the event is the result of
a command with a long output, the hook stores the output as "stevedore run" does, and answers
with what the model is to see instead. In all other cases, also after an error, it prints
nothing, so that the host works as without it.

  stevedore hook claude-code     PostToolUse of Bash; see integration/hosts/claude-code`

// maxHookEvent bounds an event, in bytes. Hosts cut longer outputs before.
const maxHookEvent = 64 << 20

func newHookCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{Use: "hook", Short: "Keep long outputs of a coding host's commands out of its prompt", Long: hookHelp}
	claude := &cobra.Command{
		Use:   "claude-code",
		Short: "The hook PostToolUse of Claude Code",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if answer := o.claudeCode(cmd.Context(), cmd.InOrStdin()); answer != nil {
				_, _ = cmd.OutOrStdout().Write(append(answer, '\n')) // the host is gone
			}
			return nil
		},
	}
	o.addFlags(claude)
	claude.Flags().Int64Var(&o.threshold, "threshold", 10_000, "`BYTES` of output above which it is stored")
	cmd.AddCommand(claude)
	return cmd
}

// claudeCode returns the answer to an event of Claude Code, or nil. The shapes are those of
// https://code.claude.com/docs/en/hooks and of its tool Bash.
func (o *runOptions) claudeCode(ctx context.Context, stdin io.Reader) []byte {
	var event struct {
		Name     string `json:"hook_event_name"`
		Tool     string `json:"tool_name"`
		Response struct {
			Stdout      *string `json:"stdout"`
			Stderr      string  `json:"stderr"`
			Interrupted bool    `json:"interrupted"`
			IsImage     bool    `json:"isImage"`
			// Path of the file with the whole output, if the host has cut it.
			Path string `json:"persistedOutputPath"`
		} `json:"tool_response"`
		Input struct {
			Command string `json:"command"`
		} `json:"tool_input"`
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxHookEvent))
	res := &event.Response
	if err != nil || json.Unmarshal(data, &event) != nil || event.Name != "PostToolUse" || event.Tool != "Bash" || res.Stdout == nil || res.IsImage {
		return nil
	}
	output, closeOutput := io.Reader(strings.NewReader(*res.Stdout)), func() error { return nil }
	if res.Path != "" {
		file, err := os.Open(res.Path)
		if err != nil {
			return nil
		}
		output, closeOutput = file, file.Close
	}
	var shown bytes.Buffer
	held := newHeldOutput(&shown, o.threshold)
	defer held.Close()
	_, err = io.Copy(held, output)
	if closeErr := closeOutput(); err != nil || closeErr != nil || !held.isLong() {
		return nil
	}
	if o.show(ctx, []string{event.Input.Command}, held) != nil {
		return nil
	}
	answer, err := json.Marshal(map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PostToolUse",
		"updatedToolOutput": map[string]any{
			"stdout": strings.TrimSuffix(shown.String(), "\n"), "stderr": tools.Excerpt(res.Stderr, int(o.threshold)), "interrupted": res.Interrupted, "isImage": false,
		},
	}})
	if err != nil {
		return nil
	}
	return answer
}

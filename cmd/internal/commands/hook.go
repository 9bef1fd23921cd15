package commands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

const hookHelp = `The hook of a coding host: it reads an event on standard input, and answers if it has something
to say. In all other cases, also after an error, it prints nothing, so that the host works as
without it.

  stevedore hook claude-code     the plugin of "stevedore mcp install claude-code" runs it; those
                                 of codex, gemini-cli, opencode and pi run it by their names

PostToolUse (AfterTool of Gemini CLI): a long output of the host's shell is stored as "stevedore
run" does, and the model sees how to read it.

SessionStart of Claude Code, which lets no hook replace the output of a command that failed: the
shell of each command calls this hook with --failed before it exits with a status from 1 to 128.
A long output is stored, and replaced in the file to which Claude Code lets the shell write. This
works on Linux.

PreToolUse of Codex, which shows no whole output to a hook: "stevedore run" runs the command. If
rules of Codex forbid commands or ask for them, the hook says nothing, because Codex would
compare them with "stevedore run" instead of the command.

PermissionRequest: if a worker runs with "--ask coding_host", the question goes to the user's
channel, such as Telegram, and to "stevedore approvals" and the web page. The first answer
counts. Without one within --ask-wait, the host asks its user.`

// maxHookEvent bounds an event, in bytes. Hosts cut longer outputs before.
const maxHookEvent = 64 << 20

// hookOptions are the options of the hook of a host.
type hookOptions struct {
	runOptions
	Failed  string        `flag:"failed" unit:"COMMAND" help:"COMMAND that has failed; its output is the file that standard output leads to"`
	AskWait time.Duration `flag:"ask-wait" default:"50s" unit:"TIME" help:"TIME to wait for an answer; less than the host's timeout for the hook"`
	Channel string        `flag:"channel" unit:"CHANNEL" help:"CHANNEL on which the user is asked; default the worker's --default-channel"`
	ChatID  string        `flag:"chat-id" unit:"CHAT" help:"CHAT within the channel"`
}

func newHookCommand() *cobra.Command {
	o := hookOptions{runOptions: runOptions{threshold: outputThreshold}}
	cmd := &cobra.Command{Use: "hook", Short: "Keep long outputs of a coding host out of its prompt, and answer its questions elsewhere", Long: hookHelp}
	claude := &cobra.Command{
		Use:     "claude-code",
		Aliases: []string{"codex", "gemini-cli", "opencode", "pi"},
		Short:   "The hooks of Claude Code, Codex, Gemini CLI, opencode and Pi",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkName(o.Session); err != nil {
				return err
			}
			o.host = cmd.CalledAs()
			if cmd.Flags().Changed("failed") {
				o.shortenFailed(cmd.Context())
				return nil
			}
			if answer := o.claudeCode(cmd.Context(), cmd.InOrStdin()); answer != nil {
				_, _ = cmd.OutOrStdout().Write(append(answer, '\n')) // the host is gone
			}
			return nil
		},
	}
	flags := claude.Flags()
	o.Connection.AddFlags(flags)
	cli.AddOptions(flags, &o)
	cli.AddSettingsOf(flags, &o.Store, o.Store, cli.TopicOffloading)
	cmd.AddCommand(claude)
	return cmd
}

// claudeEvent is an event of Claude Code, or of a host with similar events. The shapes are those
// of https://code.claude.com/docs/en/hooks and of its tool Bash, of
// https://developers.openai.com/codex/hooks and of https://geminicli.com/docs/hooks/reference.
type claudeEvent struct {
	Name      string `json:"hook_event_name"`
	Session   string `json:"session_id"`
	Directory string `json:"cwd"`
	// Transcript is the path of the conversation, to which the host appends.
	Transcript string         `json:"transcript_path"`
	Tool       string         `json:"tool_name"`
	Input      map[string]any `json:"tool_input"`
	Response   struct {
		Stdout      *string `json:"stdout"`
		Stderr      string  `json:"stderr"`
		Interrupted bool    `json:"interrupted"`
		IsImage     bool    `json:"isImage"`
		// Path of the file with the whole output, if the host has cut it.
		Path string `json:"persistedOutputPath"`
		// Content is the whole output in Gemini CLI.
		Content *string `json:"llmContent"`
	} `json:"tool_response"`
}

// claudeCode returns the answer to an event of Claude Code, or nil.
func (o *hookOptions) claudeCode(ctx context.Context, stdin io.Reader) []byte {
	var event claudeEvent
	data, err := io.ReadAll(io.LimitReader(stdin, maxHookEvent))
	if err != nil || json.Unmarshal(data, &event) != nil {
		return nil
	}
	var answer map[string]any
	switch event.Name {
	case "PostToolUse", "AfterTool":
		answer = o.shortened(ctx, event)
	case "PreToolUse":
		answer = o.rewritten(event)
	case "SessionStart":
		o.watchFailures()
	case "PermissionRequest":
		answer = o.permission(ctx, event)
	}
	if answer == nil {
		return nil
	}
	if event.Name != "AfterTool" {
		answer["hookEventName"] = event.Name
		answer = map[string]any{"hookSpecificOutput": answer}
	}
	encoded, _ := json.Marshal(answer) // texts, truth values, and what was decoded
	return encoded
}

// readsBack reports whether the output of a command was asked for, or is short. The program may have
// another name, which the model was told.
func readsBack(command string) bool {
	return regexp.MustCompile(`(stevedore\S*|` + regexp.QuoteMeta(programName()) + `) (run|read)\b`).MatchString(command)
}

// shortened is the answer with the short form of a long output of the host's shell.
func (o *hookOptions) shortened(ctx context.Context, event claudeEvent) map[string]any {
	res := &event.Response
	command, _ := event.Input["command"].(string)
	if event.Tool == "run_shell_command" {
		res.Stdout = res.Content
	} else if event.Tool != "Bash" {
		return nil
	}
	if readsBack(command) || res.Stdout == nil || res.IsImage {
		return nil
	}
	output := io.Reader(strings.NewReader(*res.Stdout))
	if res.Path != "" {
		file, err := os.Open(res.Path)
		if err != nil {
			return nil
		}
		defer func() { _ = file.Close() }() // it is only read
		output = file
	}
	stderr := res.Stderr
	if int64(len(stderr)) > o.threshold {
		output, stderr = io.MultiReader(output, strings.NewReader("\n"+stderr)), ""
	}
	var shown bytes.Buffer
	held := newHeldOutput(&shown, o.threshold)
	defer held.Close()
	if _, err := io.Copy(held, output); err != nil || o.show(ctx, []string{command}, held) != nil || held.passing {
		return nil
	}
	if event.Name == "AfterTool" { // Gemini CLI writes "Tool result blocked: " before it
		return map[string]any{"decision": "deny", "reason": "no, the command has run, and its output is shortened:\n" + shown.String()}
	}
	return map[string]any{"updatedToolOutput": map[string]any{
		"stdout": strings.TrimSuffix(shown.String(), "\n"), "stderr": stderr, "interrupted": res.Interrupted, "isImage": false,
	}}
}

// permission is the decision of a person who is asked over the bus. It is nil if no worker asks
// people, or if nobody answers in time; then the question is withdrawn.
func (o *hookOptions) permission(ctx context.Context, event claudeEvent) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, o.AskWait)
	defer cancel()
	args, err := bus.Encode(process.HostCall{Tool: event.Tool, Input: event.Input, Directory: event.Directory})
	if err != nil || event.Tool == "" || event.Input == nil {
		return nil
	}
	b, err := o.Connection.Connect(ctx, "stevedore hook", zerolog.Nop())
	if err != nil {
		return nil
	}
	defer b.Close()
	if offered, err := rpc.HasWorker(ctx, b, bus.DefaultQueue, process.HostTool); err != nil || !offered {
		return nil
	}
	call := tools.Call{
		ID: artifacts.NewID(event.Tool), Session: cmp.Or(event.Session, tools.DefaultSession), Tool: process.HostTool, Args: args,
		Channel: o.Channel, ChatID: o.ChatID, Deadline: time.Now().Add(o.AskWait + 10*time.Second), // if this process is killed
	}
	var watching sync.WaitGroup
	watching.Go(func() { event.awaitResult(ctx, cancel) })
	res, err := rpc.Submit(ctx, b, bus.DefaultQueue, call)
	cancel()
	watching.Wait()
	if err != nil { // nobody answered, or the host's user was faster
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = rpc.CancelTask.Do(ctx, b, call.SessionToken(), rpc.TaskRequest{ID: call.ID}) // otherwise the deadline ends it
		return nil
	}
	switch {
	case !res.IsError:
		return map[string]any{"decision": map[string]any{"behavior": "allow"}}
	case res.Error != nil && res.Error.Code == tools.CodeDenied:
		return map[string]any{"decision": map[string]any{"behavior": "deny", "message": res.ForLLM}}
	}
	return nil
}

// awaitResult calls answered when the transcript has the result of a tool that was not in it
// before: the user answered in the host, which lets the hook run on.
func (e claudeEvent) awaitResult(ctx context.Context, answered func()) {
	file, err := os.Open(e.Transcript)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }() // it was only read
	start, err := file.Seek(0, io.SeekEnd)
	for err == nil && tools.Sleep(ctx, time.Second) == nil {
		var added []byte
		if added, err = io.ReadAll(io.NewSectionReader(file, start, maxHookEvent)); bytes.Contains(added, []byte(`"tool_result"`)) {
			answered()
			return
		}
	}
}

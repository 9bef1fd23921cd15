package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nuid"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

const agentHelp = `Send a prompt to an agent and print its answer, or, without a prompt, have a
conversation. At least one worker must have a model. Any of these workers runs the agent;
if it dies, another one continues.

  stevedore up --model ` + provider.ExampleModel + `
  stevedore agent "which of the files here is the longest?" --session s1
  stevedore agent "and the shortest?" --session s1
  stevedore agent --session s1              a conversation
  stevedore agent --resume --session s1     wait for the answer of the last run
  stevedore agent - < prompt.txt            the prompt is the standard input

Standard error shows the tool calls as they start and end, and the tool results for the
user (see --tool-output of stevedore up). On a terminal, the text appears as the model writes
it. In a pipe, standard output has only the answer; --stream writes the text of all turns
there as it arrives, and with --json also one line per progress event.

In a conversation, Enter sends a message. To continue a message on the next line, end a
line with a backslash, or press Alt+Enter. Ctrl-C cancels the answer, Ctrl-D or /quit ends
the conversation, /new makes the agent forget it. "yes" and "no" answer the question
whether a call may run. If the input is not a terminal, each line is a message. Without
--session, the conversation is that of the session "console", which also gets the alerts of
the heartbeat; with --server or --context, it is a new session.

For demos and tests without a key, --model script:FILE replaces the model by a file.
Each line is a turn, and a conversation uses the lines in order:

  {"text":"Let me look.", "tools":[{"name":"list_dir","input":{"path":"."}}]}
  {"text":"There it is."}

A session is one conversation. The agent answers the prompts of a session one after the
other. Without --session, a prompt starts a new session, whose name is printed to standard
error. After --wait, the command ends, but the run continues.`

type promptOptions struct {
	client.Options
	call          tools.Call
	args          promptArgs
	Uploads       []string      `flag:"file" unit:"FILE" help:"FILE that the agent gets with the prompt; repeat the flag for more"`
	Resume        bool          `flag:"resume" help:"send no prompt; wait for the answer of the session's last run"`
	Stream        bool          `flag:"stream" help:"write the text of all turns to standard output as it arrives, also in a pipe"`
	Wait          time.Duration `flag:"wait" default:"1h" min:"1ms" unit:"TIME" help:"TIME to wait for the answer; if given, also for a worker with a model"`
	waitForWorker bool          // wait although no worker has a model
}

// promptArgs are the arguments of the agent tool.
type promptArgs struct {
	Prompt string `json:"prompt"`
	Model  string `json:"model,omitempty" flag:"use-model" unit:"SPEC" help:"SPEC of one of the worker's models; default its first one"`
	// Tools that the agent may use; nil means all, empty means none.
	Tools []string `json:"tools,omitzero" flag:"use-tools" split:"," unit:"TOOL" help:"TOOLs that the agent may use; default all; an empty value means none"`
	Fresh bool     `json:"fresh,omitempty" flag:"fresh" help:"begin the session anew: the agent sees nothing of its earlier messages"`
	Files []string `json:"files,omitempty"` // ids of artifacts
}

func newAgentCommand() *cobra.Command {
	var o promptOptions
	cmd := &cobra.Command{
		Use:   "agent [PROMPT]",
		Short: "Send a prompt to an agent, or have a conversation with it",
		Long:  agentHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.waitForWorker = cmd.Flags().Changed("wait")
			prompt, err := readPrompt(args, cmd.InOrStdin())
			switch {
			case err != nil:
				return err
			case o.Resume && (len(args) > 0 || o.call.Session == "" || o.args.Fresh):
				return cli.Exit(cli.ExitUsage, "--resume needs --session, no prompt and no --fresh")
			case len(o.Uploads) > 0 && len(args) == 0:
				return cli.Exit(cli.ExitUsage, "--file needs a prompt: %s", o.Connection.Command("agent", "--file", "FILE", "PROMPT"))
			case len(args) == 0 && !o.Resume && (o.call.ID != "" || o.JSON):
				return cli.Exit(cli.ExitUsage, "a conversation takes no --id and no --json; for one prompt: %s", o.Connection.Command("agent", "PROMPT"))
			}
			o.args.Prompt = prompt
			if len(args) == 0 && !o.Resume {
				prompt := cli.NewPrompt(cmd.InOrStdin(), cmd.OutOrStdout())
				defer prompt.Close()
				return o.converse(cmd.Context(), prompt, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd)
	cli.AddOptions(cmd.Flags(), &o)
	cli.AddOptions(cmd.Flags(), &o.args)
	cli.AddOptionsOf(cmd.Flags(), &o.call, struct {
		Session string `flag:"session" unit:"SESSION" help:"SESSION of the conversation; default a new one, or console"`
		ID      string `flag:"id" unit:"ID" help:"ID of the call; default a new id"`
		Channel string `flag:"channel" unit:"CHANNEL" help:"CHANNEL that also delivers the answer to the user"`
		ChatID  string `flag:"chat-id" unit:"CHAT" help:"CHAT within the channel"`
	}{})
	o.CompleteSession(cmd)
	return cmd
}

// readPrompt returns the prompt of a command line; "-" means the whole standard input.
func readPrompt(args []string, stdin io.Reader) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	prompt := args[0]
	if prompt == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("read the prompt: %w", err)
		}
		prompt = string(data)
	}
	switch {
	case len(prompt) > maxPrompt:
		return "", cli.Exit(cli.ExitUsage, "the prompt has more than %d bytes; put it into a file of the workspace", maxPrompt)
	case strings.TrimSpace(prompt) == "":
		return "", cli.Exit(cli.ExitUsage, "the prompt is empty; without a prompt, stevedore agent has a conversation")
	}
	return prompt, nil
}

// maxPrompt is the maximum size of a prompt from standard input; the server rejects
// larger calls.
const maxPrompt = 1 << 20

func (o promptOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	b, err := o.Await(ctx, "agent", &o.call.Session, stderr)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := o.prepare(ctx, b, stderr); err != nil {
		return err
	}
	view := &agentView{stdout: stdout, stderr: stderr, stream: o.Stream || cli.IsTerminal(stdout), styled: cli.ShowsStyles(stdout)}
	show := view.add
	if o.JSON {
		show = func(event tools.ProgressEvent) {
			if o.Stream {
				_ = cli.JSON(stdout, event) // the result reports a failure of stdout
			}
		}
	}
	_, stopFeed, err := startFeed(ctx, o, b, nil, stderr)
	if err != nil {
		return err
	}
	event, err := o.submit(ctx, b, show, stderr)
	stopFeed()
	if err != nil {
		view.endLine()
		return err
	}
	switch {
	case o.JSON:
		err = cli.JSON(stdout, event)
	case event.Error != nil && event.Error.Code == tools.CodeInvalidArguments: // no agent has run
		return cli.Exit(cli.ExitToolError, "%s", event.ForLLM)
	default:
		err = o.showAnswer(ctx, b, view, event)
	}
	if err != nil {
		return err
	}
	if event.IsError {
		return cli.Exit(cli.ExitToolError, "")
	}
	return nil
}

// submit submits the call and waits for its result. It shows the progress until then.
func (o promptOptions) submit(ctx context.Context, b *bus.Bus, show func(tools.ProgressEvent), stderr io.Writer) (tools.ResultEvent, error) {
	connected, disconnect := b.WithConnection(ctx)
	defer disconnect()
	wait, cancel := context.WithTimeout(connected, o.Wait)
	defer cancel()
	noWorker := false
	stopWarning := client.WarnIfNoWorker(wait, b, bus.AgentQueue, func(ctx context.Context, silent error) {
		switch {
		case silent != nil && !client.IsQueued(ctx, b, o.call):
		case silent != nil:
			fmt.Fprintf(stderr, "stevedore: %v; the prompt is kept; if no worker is running, %s\n", silent, o.startModel())
		case o.waitForWorker:
			fmt.Fprintf(stderr, "stevedore: no worker with a model is running, and the prompt stays queued: %s\n", o.startModel())
		default:
			if noWorker = client.IsQueued(ctx, b, o.call); noWorker {
				cancel()
			}
		}
	})
	stopWatching, err := rpc.WatchProgress(b, o.call, show)
	if err != nil {
		stopWarning()
		return tools.ResultEvent{}, err
	}
	event, err := rpc.Submit(wait, b, bus.AgentQueue, o.call)
	stopWarning()
	stopWatching()
	outage := client.Outage(connected, b)
	again := fmt.Sprintf("send the same prompt again with --session %s --id %s to ", cli.ShellWord(o.call.Session), cli.ShellWord(o.call.ID))
	switch pending := errors.Is(err, rpc.ErrPending); {
	case pending && ctx.Err() != nil:
		err = cli.Exit(cli.ExitPending, "interrupted; the run continues; to wait for its answer: %s", o.resume())
	case err == nil, ctx.Err() != nil:
	case noWorker && errors.Is(err, context.Canceled):
		err = cli.Exit(cli.ExitPending, "no worker with a model is running; the prompt stays queued: %s, then %sget the answer", o.startModel(), again)
	case pending && outage == nil:
		err = cli.Exit(cli.ExitPending, "no answer after %s; the run continues; to wait for its answer: %s", o.Wait, o.resume())
	default:
		err = notAnswered(err, outage, o.Wait, again+"wait for it")
	}
	return event, err
}

// resume returns the command that waits for the answer.
func (o promptOptions) resume() string {
	return o.Connection.Command("agent", "--resume", "--session", o.call.Session)
}

// showAnswer shows the output of the tools, and the answer.
func (o promptOptions) showAnswer(ctx context.Context, b *bus.Bus, view *agentView, event tools.ResultEvent) error {
	connected, disconnect := b.WithConnection(ctx)
	defer disconnect()
	view.endLine()
	if err := o.printOutput(connected, b, view); err != nil {
		return err
	}
	return view.answer(cmp.Or(event.ForUser, event.ForLLM))
}

// prepare builds the call, or finds the session's last call for --resume.
func (o *promptOptions) prepare(ctx context.Context, b *bus.Bus, stderr io.Writer) (err error) {
	if o.Resume {
		entries, err := client.ReadConversation(ctx, b, &o.Connection, o.call.Session)
		if err != nil {
			return err
		}
		call, ok := agent.LastCall(entries)
		if !ok {
			return cli.Exit(cli.ExitNotFound, "session %q has no run; see %s", o.call.Session, o.Connection.Command("sessions", "show", o.call.Session))
		}
		if call.Tool != agent.AgentTool { // the conversation of a sub-agent
			return cli.Exit(cli.ExitUsage, "session %q belongs to a sub-agent; resume the session that started it", o.call.Session)
		}
		o.call = call
		p, parked, err := task.ReadParked(ctx, b, tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()})
		if err == nil && parked && p.State == task.Waiting { // do not wait for its next attempt
			err = task.Resume(ctx, b, p)
		}
		return err
	}
	if o.call.Session == "" {
		o.call.Session = "chat-" + nuid.Next()
		if _, err := fmt.Fprintf(stderr, "session %s\n", o.call.Session); err != nil {
			return err
		}
	}
	o.call.ID = cmp.Or(o.call.ID, "run-"+nuid.Next())
	o.call.Tool = agent.AgentTool
	if o.args.Files, err = o.upload(ctx, b); err != nil {
		return err
	}
	o.call.Args, err = bus.Encode(o.args)
	return err
}

// startModel says how to start a worker with a model.
func (o *promptOptions) startModel() string {
	if o.Connection.External() {
		return fmt.Sprintf(`start one with "%s" (see "stevedore help models")`, client.StartCommand(&o.Connection, bus.AgentQueue))
	}
	return fmt.Sprintf(`restart "%s" with --model SPEC (see "stevedore help models")`, o.Connection.Command("up"))
}

// upload makes the files artifacts of the session. Their ids follow from that of the call, so
// the same command is the same call.
func (o *promptOptions) upload(ctx context.Context, b *bus.Bus) (ids []string, err error) {
	if len(o.Uploads) == 0 {
		return nil, nil
	}
	if running, err := rpc.HasWorker(ctx, b, bus.AgentQueue, agent.AgentTool); err != nil || !running && !o.waitForWorker {
		return nil, cmp.Or(err, cli.Exit(cli.ExitPending, "no worker with a model is running, and only a worker can take the files: %s, "+
			"then send the prompt again", o.startModel()))
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for i, file := range o.Uploads {
		id, err := client.Upload(ctx, b, bus.AgentQueue, o.call.Session, fmt.Sprintf("%s-file-%d", o.call.ID, i+1), file)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// printOutput prints the tool results that the user sees before the answer. If they
// cannot be read, the user still gets the answer.
func (o promptOptions) printOutput(ctx context.Context, b *bus.Bus, view *agentView) error {
	stderr := view.stderr
	entries, err := client.ReadConversation(ctx, b, &o.Connection, o.call.Session)
	if failure, ok := errors.AsType[*cli.Error](err); ok && failure.Code == cli.ExitNotFound {
		return nil // the run did not start
	}
	if err != nil {
		_, err := fmt.Fprintf(stderr, "stevedore: cannot read the output of the tools: %v\n", err)
		return err
	}
	for _, res := range agent.OutputOf(entries, o.call.IDToken()) {
		if view.text != "" && view.stream { // the answer is above
			view.note("output of %s:", res.Tool)
		}
		text, whole := firstOutput(strings.TrimRight(res.ForUser, "\n"))
		if _, err := fmt.Fprintf(stderr, "%s\n", text); err != nil {
			return err
		}
		switch {
		case whole:
		case res.Artifact != nil:
			view.note("[the start of the output; all of it: %s]",
				o.Connection.Command("artifacts", "get", res.Artifact.ID, "--all", "--session", o.call.Session))
		default:
			view.note("[the start of the output, %d of %d bytes; more of it: %s]", len(text), len(res.ForUser),
				o.Connection.Command("sessions", "show", o.call.Session, "--json"))
		}
		fmt.Fprintln(stderr)
	}
	return nil
}

// maxOutput and maxOutputLines limit the output of a tool on standard error, so that it does
// not scroll the conversation away.
const (
	maxOutput      = 8 << 10
	maxOutputLines = 100
)

// firstOutput returns the start of a text, and whether that is the whole text.
func firstOutput(text string) (start string, whole bool) {
	lines := strings.SplitN(text[:min(len(text), maxOutput)], "\n", maxOutputLines+1)
	end := len(strings.Join(lines[:min(len(lines), maxOutputLines)], "\n"))
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], end == len(text)
}

package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nuid"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const callHelp = `Submit one call, wait for its result, and print what the model would see.

The arguments are a JSON object, "-" to read the object from standard input, or
NAME=VALUE pairs. A VALUE that is valid JSON is passed as JSON, otherwise as a string:

  stevedore call read_file path=go.mod
  stevedore call grep '{"pattern":"TODO","path":"."}'
  stevedore call shell command='ls -lR /usr/lib' --session s1 --id big-1
  stevedore call shell argv='["git","log"]' --offload=true
  stevedore call shell command=make --wait 0s        submit it, and print its id

If you submit a call again with the same --id, the tool is not run again: the command
prints the stored result. After --wait, the command ends, but the call continues; submit
it again to wait again. The command waits while the bus restarts, at its start and later. If
the bus is unreachable for 30 s, or for --timeout, the command ends, but the call does not.`

type callOptions struct {
	client.Options
	call       tools.Call
	Queue      string        `flag:"queue" unit:"QUEUE" help:"QUEUE to submit to"`
	Offload    string        `flag:"offload" oneof:"true,false" unit:"BOOL" help:"BOOL: true always offloads the result, false never; default by size"`
	Wait       time.Duration `flag:"wait" default:"10m" min:"0s" unit:"TIME" help:"TIME to wait for the result; 0s: print the id of the call instead"`
	Completion bool          `flag:"completion" help:"for an async call, also wait for the completion"`
}

// callFields declares options of a tools.Call.
type callFields struct {
	Session  string `flag:"session" unit:"SESSION" help:"SESSION that the call belongs to"`
	ID       string `flag:"id" unit:"ID" help:"ID of the call; default a new id"`
	Channel  string `flag:"channel" unit:"CHANNEL" help:"CHANNEL that delivers notifications of this call to the user"`
	ChatID   string `flag:"chat-id" unit:"CHAT" help:"CHAT within the channel"`
	Priority string `flag:"priority" unit:"PRIORITY" help:"PRIORITY while calls wait: low, normal or high (default normal)"`
}

func newCallCommand() *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGS]",
		Short: "Submit a call, wait for its result and print it",
		Long:  callHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.call.Tool = args[0]
			var err error
			if o.call.Args, err = parseArgs(args[1:], cmd.InOrStdin()); err != nil {
				return &cli.Error{Code: cli.ExitUsage, Err: err}
			}
			return submit(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd)
	o.call.Session, o.Queue = tools.DefaultSession, bus.DefaultQueue
	cli.AddOptions(cmd.Flags(), &o)
	cli.AddOptionsOf(cmd.Flags(), &o.call, callFields{})
	o.CompleteArgs(cmd, func(before []string) client.Names {
		if len(before) == 0 {
			return toolNames
		}
		return argNames(before[0])
	})
	o.CompleteSession(cmd)
	return cmd
}

// argNames returns the arguments of a tool as "name=", or as "name=value" if the schema lists the values.
func argNames(tool string) client.Names {
	return func(ctx context.Context, o *client.Options, b *bus.Bus) (names []string, err error) {
		answer, err := client.Ask(ctx, o, b, rpc.ListOffers, tools.OfferQuery{})
		i := slices.IndexFunc(answer.Out.Tools, func(t rpc.ToolInfo) bool { return t.Name == tool && t.Parameters != nil })
		if err != nil || i < 0 {
			return nil, err
		}
		for name, schema := range answer.Out.Tools[i].Parameters.Properties {
			values := schema.Enum
			if schema.Type == "boolean" {
				values = []any{true, false}
			} else if len(values) == 0 {
				values = []any{""}
			}
			for _, value := range values {
				names = append(names, fmt.Sprintf("%s=%v", name, value))
			}
		}
		slices.Sort(names)
		return names, nil
	}
}

// parseArgs returns the arguments as a JSON object.
func parseArgs(args []string, stdin io.Reader) (json.RawMessage, error) {
	switch {
	case len(args) == 0:
		return json.RawMessage("{}"), nil
	case len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(stdin, 64<<20))
		if err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		return object(data)
	case len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{"):
		return object([]byte(args[0]))
	}
	pairs := make(map[string]any, len(args))
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("argument %q: want a JSON object, or NAME=VALUE", tools.Excerpt(arg, 80))
		}
		if _, twice := pairs[name]; twice {
			return nil, fmt.Errorf("argument %q is given twice", tools.Excerpt(name, 80))
		}
		pairs[name] = value
		if json.Valid([]byte(value)) {
			pairs[name] = json.RawMessage(value)
		}
	}
	return bus.Encode(pairs)
}

func object(data []byte) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
	}
	return data, nil
}

func submit(ctx context.Context, o callOptions, stdout, stderr io.Writer) error {
	if o.Offload != "" {
		o.call.Offload = new(o.Offload == "true")
	}
	if !tools.IsToken(o.Queue) || !tools.IsToken(o.call.Tool) {
		return cli.Exit(cli.ExitUsage, "queue %q and tool %q must be of the form %s", o.Queue, o.call.Tool, tools.TokenForm)
	}
	if o.Completion && o.Wait == 0 {
		return cli.Exit(cli.ExitUsage, "--completion waits; it needs a --wait of more than 0s")
	}
	b, err := o.Await(ctx, "call", &o.call.Session, stderr)
	if err != nil {
		return err
	}
	defer b.Close()
	o.Queue = b.QueueFor(o.Queue)
	again := o.call.ID != "" // perhaps
	if !again {
		o.call.ID = nuid.Next() // printed when the wait ends
	}
	connected, disconnect := b.WithConnection(ctx)
	defer disconnect()
	if o.Wait == 0 {
		return enqueue(connected, b, o, stdout)
	}
	wait, cancel := context.WithTimeout(connected, o.Wait)
	defer cancel()
	stop := client.WarnIfNoWorker(wait, b, o.Queue, func(ctx context.Context, silent error) {
		start := client.StartCommand(&o.Connection, o.Queue)
		switch {
		case !client.IsQueued(ctx, b, o.call):
		case silent != nil:
			fmt.Fprintf(stderr, "stevedore: %v; the call is kept; if no worker is running, start one: \"%s\"\n", silent, start)
		default:
			fmt.Fprintf(stderr, "stevedore: no worker is consuming queue %q; the call stays queued until you start one: \"%s\"\n", o.Queue, start)
		}
	})
	stopAsking := warnIfAsked(wait, b, o, stderr)
	event, err := rpc.Submit(wait, b, o.Queue, o.call)
	stop()
	stopAsking()
	if err == nil && event.Outcome == tools.Async && o.Completion {
		event, err = rpc.AwaitCompletion(wait, b, tools.Call{ID: event.ID, Session: event.Session, Tool: event.Tool})
	}
	outage := client.Outage(connected, b)
	switch pending := errors.Is(err, rpc.ErrPending); {
	case ctx.Err() != nil && pending:
		return cli.Exit(cli.ExitPending, "interrupted; the call continues: submit it again with --id %s to wait for it", cli.ShellWord(o.call.ID))
	case pending && outage == nil:
		return cli.Exit(cli.ExitPending, "no result after %s; %s; the call stays submitted: submit it again with --id %s to wait for it, "+
			"or see %s", o.Wait, callState(ctx, b, o), cli.ShellWord(o.call.ID), taskCommand(o))
	case err != nil:
		return notAnswered(err, outage, o.Wait, fmt.Sprintf("submit it again with --id %s to wait for it, or see %s", cli.ShellWord(o.call.ID), taskCommand(o)))
	}
	if err := printResult(event, o.JSON, stdout); err != nil {
		return err
	}
	if again && event.Artifact != nil {
		_, err := rpc.ArtifactRecord.Ask(wait, b, o.call.Session, rpc.ArtifactRequest{ArtifactID: event.Artifact.ID})
		if tools.CodeOf(err) == tools.CodeNotFound {
			fmt.Fprintf(stderr, "stevedore: this is the result of an earlier call with this id, and its artifact has expired or was removed; "+
				"to run the tool again, give another --id\n")
		}
	}
	if event.IsError {
		return cli.Exit(cli.ExitToolError, "")
	}
	return nil
}

// enqueue submits a call without a wait for its result.
func enqueue(ctx context.Context, b *bus.Bus, o callOptions, stdout io.Writer) error {
	long := b.Config().Away
	wait, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	accepted, err := rpc.Enqueue(wait, b, o.Queue, o.call)
	switch {
	case err != nil:
		return notAnswered(err, client.Outage(ctx, b), long, "submit it again with --id "+cli.ShellWord(o.call.ID)+", or see "+taskCommand(o))
	case o.JSON:
		return cli.JSON(stdout, accepted)
	}
	_, err = fmt.Fprintln(stdout, accepted.ID)
	return err
}

// notAnswered is the error of a call that got no result within wait because the bus is away or does not answer, or that was refused. outage is
// why the bus is away, if that has ended the wait; again says how to submit the call again.
func notAnswered(err, outage error, wait time.Duration, again string) error {
	accepted := "may have been accepted"
	if errors.Is(err, rpc.ErrPending) {
		accepted = "was accepted"
	}
	switch {
	case outage != nil:
		return fmt.Errorf("%w; the call %s: when the bus is back, %s", outage, accepted, again)
	case errors.Is(err, bus.ErrUnreachable):
		return fmt.Errorf("%w; when the bus is back, %s", err, again)
	case tools.CodeOf(err) == tools.CodeMismatch, tools.CodeOf(err) == tools.CodeInvalidCall:
		return cli.Exit(cli.ExitUsage, "%w", err)
	case errors.Is(err, context.DeadlineExceeded): // the bus did not acknowledge the call
		code := cli.ExitPending
		if wait >= bus.Notice { // one that works answers within it
			code = cli.ExitUnreachable
		}
		return cli.Exit(code, "the bus had not yet accepted the call after %s: %w; %s", wait, err, again)
	}
	return err
}

// taskCommand returns the command that shows the state of a call.
func taskCommand(o callOptions) string {
	return o.Connection.Command("tasks", "get", o.call.IDToken(), "--session", o.call.SessionToken())
}

// warnIfAsked says once how to approve the call if it waits for that. stop ends the check and waits for it.
func warnIfAsked(ctx context.Context, b *bus.Bus, o callOptions, stderr io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := 500 * time.Millisecond; tools.Sleep(ctx, pause) == nil; pause = min(2*pause, 10*time.Second) {
			if t, err := task.Get(ctx, b, o.call.SessionToken(), o.call.IDToken()); err == nil && t.State == task.InputRequired {
				fmt.Fprintf(stderr, "stevedore: the call waits for an approval; answer in another terminal: \"%s\"\n",
					o.Connection.Command("approvals", "yes", o.call.IDToken(), "--session", o.call.SessionToken()))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// callState returns a line with the state of a call that has no result yet.
func callState(ctx context.Context, b *bus.Bus, o callOptions) string {
	if !b.Conn().IsConnected() {
		return "state: unknown (not connected to the bus)"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	t, err := task.Get(ctx, b, o.call.SessionToken(), o.call.IDToken())
	switch {
	case err != nil:
		return "state: unknown (" + tools.OneLine(err.Error()) + ")"
	case t.State == task.Running:
		return fmt.Sprintf("state: running (worker %q)", t.Worker)
	case t.Message != "":
		return fmt.Sprintf("state: %s (%s)", t.State, tools.OneLine(t.Message))
	}
	switch consumed, err := rpc.HasWorker(ctx, b, o.Queue, ""); {
	case errors.Is(err, task.ErrSilent):
		return fmt.Sprintf("state: %s (%v)", t.State, err)
	case err == nil && !consumed && t.State == task.Queued:
		return fmt.Sprintf("state: queued (no worker is consuming queue %q)", o.Queue)
	}
	return fmt.Sprintf("state: %s", t.State)
}

func printResult(event tools.ResultEvent, asJSON bool, stdout io.Writer) error {
	if asJSON {
		return cli.JSON(stdout, event)
	}
	text := event.ForLLM
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(stdout, text)
	return err
}

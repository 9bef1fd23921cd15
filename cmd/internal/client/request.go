// Package client holds what the commands that use a running worker share: they send
// requests to the workers' service, submit calls and wait for results. cmd/heartbeat
// does none of this, so the package is not part of cli.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Options are the flags of a command that sends requests to the workers.
type Options struct {
	Connection cli.Connection
	Logging    cli.Logging
	Session    string
	JSON       bool
	Wide       bool
}

// AddFlags adds the flags to a command and its subcommands, without --session.
func (o *Options) AddFlags(cmd *cobra.Command) {
	o.Connection.AddFlags(cmd.PersistentFlags())
	o.Logging.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().BoolVar(&o.JSON, "json", false, "print one JSON object per item, one per line")
	cmd.PersistentFlags().BoolVar(&o.Wide, "wide", false, "show all columns of a list, also those that do not fit the terminal")
}

// Group returns a command whose subcommands use the bus.
func (o *Options) Group(use, short, long string, aliases ...string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Aliases: aliases, Short: short, Long: long}
	o.AddFlags(cmd)
	return cmd
}

// AddSessionFlag adds --session: the session of these things.
func (o *Options) AddSessionFlag(cmd *cobra.Command, things string) {
	cmd.PersistentFlags().StringVar(&o.Session, "session", tools.DefaultSession, "`SESSION` of the "+things)
	o.CompleteSession(cmd)
}

// Do is what a command does while it is connected to the bus.
type Do func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error

// Command returns a command that connects to the bus and calls do.
func (o *Options) Command(use, short string, do Do) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		return o.With(cmd, func(ctx context.Context, b *bus.Bus) error { return do(ctx, b, cmd, args) })
	}}
}

// RequestCommand returns a command that asks for one operation and prints the answer, without --json
// with show, if that is given. An error of request is one of the command line.
func RequestCommand[In, Out any](o *Options, use, short string, op *rpc.Op[In, Out], request func(args []string) (In, error),
	show ...func(*cobra.Command, Out) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		in, err := request(args)
		if err != nil {
			return &cli.Error{Code: cli.ExitUsage, Err: err}
		}
		return o.With(cmd, func(ctx context.Context, b *bus.Bus) error {
			answer, err := Ask(ctx, o, b, op, in)
			if err != nil {
				return err
			}
			return answer.Print(o, cmd, show...)
		})
	}}
}

// PrintList prints items: as JSON one per line, otherwise as a table, or as empty if there are none.
func PrintList[T any](asJSON bool, out io.Writer, items []T, empty string, columns []string, row func(T) []any) error {
	if asJSON {
		return cli.JSONLines(out, items)
	}
	return PrintTable(out, items, empty, columns, row)
}

// PrintTable prints items as a table, or empty if there are none.
func PrintTable[T any](out io.Writer, items []T, empty string, columns []string, row func(T) []any) error {
	t := cli.NewTable(columns...)
	for _, item := range items {
		t.Row(row(item)...)
	}
	return t.Print(out, empty)
}

// With connects to the bus and calls do. Its context is cancelled if the bus is
// away for long.
func (o *Options) With(cmd *cobra.Command, do func(context.Context, *bus.Bus) error) error {
	if o.Wide {
		cmd.SetOut(cli.Wide(cmd.OutOrStdout()))
	}
	b, err := o.Connect(cmd.Context(), strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer b.Close()
	connected, stop := b.WithConnection(cmd.Context())
	defer stop()
	// Otherwise it may be a token of which only artifacts are stored, or a name of somebody who may not read conversations.
	if name, err := agents.NameOf(connected, b, o.Session); err == nil {
		o.Session = name
	}
	err = do(connected, b)
	if outage := Outage(connected, b); outage != nil && err != nil && !errors.Is(err, bus.ErrUnreachable) {
		return outage
	}
	return o.exit(cmd, b.Unanswered(status.Refused(b, err)))
}

// exit returns the error of an operation with its exit code, and the command that lists what there is.
func (o *Options) exit(cmd *cobra.Command, err error) error {
	if _, done := errors.AsType[*cli.Error](err); done || err == nil {
		return err
	}
	switch text := commandNames.Replace(err.Error()); tools.CodeOf(err) {
	case tools.CodeNotFound, tools.CodeExpired:
		if list, _, _ := cmd.Parent().Find([]string{"ls"}); list != cmd.Parent() {
			command := strings.Fields(list.CommandPath())[1:]
			if o.Session != "" {
				command = append(command, "--session", tools.TokenOf(o.Session))
			}
			text += "; see " + o.Connection.Command(command...)
		}
		return cli.Exit(cli.ExitNotFound, "%s", text)
	case tools.CodeInvalidArguments: // whose exit code cli.Run knows
		return tools.Errorf(tools.CodeInvalidArguments, "%s", text)
	}
	return err
}

// Connect connects to the bus as "stevedore NAME" and logs to stderr.
func (o *Options) Connect(ctx context.Context, name string, stderr io.Writer) (*bus.Bus, error) {
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return nil, err
	}
	return o.Connection.Connect(ctx, "stevedore "+name, log)
}

// Await is Connect for a command that submits a call to a session, given by any of its names, and
// waits for the result: it also waits while the bus restarts. It sets session to the name for calls.
func (o *Options) Await(ctx context.Context, name string, session *string, stderr io.Writer) (*bus.Bus, error) {
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return nil, err
	}
	b, err := o.Connection.Await(ctx, "stevedore "+name, log, stderr)
	if err != nil {
		return nil, err
	}
	if *session, err = agents.NameOf(ctx, b, *session); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Outage returns the error of the bus if the bus has ended a wait. connected is
// the context of bus.WithConnection.
func Outage(connected context.Context, b *bus.Bus) error {
	select {
	case <-b.Closed(): // the wait may notice it before connected does
		return b.ClosedErr()
	default:
	}
	if cause := context.Cause(connected); errors.Is(cause, bus.ErrUnreachable) {
		return cause
	}
	return nil
}

var (
	errNoWorker     = errors.New("no worker answers")
	errDisconnected = fmt.Errorf("%w: the connection was lost before the worker answered; try again", bus.ErrUnreachable)
)

// Answer is the answer of an operation, and its JSON with the text for models.
type Answer[Out any] struct {
	Out  Out
	Body []byte
}

// Print prints the answer: with --json as JSON, of a list one item per line, and without the text for models;
// otherwise with show or, without one, that text.
func (a Answer[Out]) Print(o *Options, cmd *cobra.Command, show ...func(*cobra.Command, Out) error) error {
	if len(show) == 0 && !o.JSON {
		return o.printText(cmd.OutOrStdout(), a.Body)
	}
	var fields answerFields
	if err := json.Unmarshal(a.Body, &fields); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	defer fields.note(cmd.ErrOrStderr())
	if !o.JSON {
		return show[0](cmd, a.Out)
	}
	if items, ok := fields.items(); ok {
		return cli.JSONLines(cmd.OutOrStdout(), items)
	}
	return cli.JSON(cmd.OutOrStdout(), json.RawMessage(withoutText(a.Body)))
}

// Ask runs an operation in the session of the command.
func Ask[In, Out any](ctx context.Context, o *Options, b *bus.Bus, op *rpc.Op[In, Out], in In) (answer Answer[Out], err error) {
	answer.Body, err = op.Ask(ctx, b, o.Session, in)
	switch {
	case tools.CodeOf(err) == rpc.CodeUnknown, errors.Is(err, nats.ErrNoResponders) && hasWorkers(ctx, b, op.Subject):
		return answer, cli.Exit(cli.ExitFailed, "the workers are older than this program and do not know this operation: %s", op.Subject)
	case errors.Is(err, nats.ErrNoResponders):
		return answer, cli.Exit(cli.ExitUnreachable, "%w; start one with \"%s\"", errNoWorker, StartCommand(&o.Connection, bus.DefaultQueue))
	case errors.Is(err, nats.ErrDisconnected):
		return answer, errDisconnected
	case errors.Is(err, rpc.ErrNoAnswer):
		return answer, cli.Exit(cli.ExitPending, "%w", rpc.ErrNoAnswer)
	case err != nil:
		return answer, err
	}
	if err := json.Unmarshal(answer.Body, &answer.Out); err != nil {
		return answer, fmt.Errorf("read the answer to %s: %w", op.Name, err)
	}
	return answer, nil
}

// hasWorkers reports whether workers answer although none answers to a subject.
func hasWorkers(ctx context.Context, b *bus.Bus, subject string) bool {
	if subject == rpc.ListOffers.Subject {
		return false
	}
	_, err := rpc.ListOffers.Ask(ctx, b, "", tools.OfferQuery{Queue: "-"})
	return err == nil
}

// commandNames replaces the names of the model's tools, in errors for people.
var commandNames = strings.NewReplacer("; "+offload.ToolQuery+" lists the artifacts", "", offload.ToolQuery, "stevedore artifacts ls",
	offload.ToolGet, "stevedore artifacts get", offload.ToolLines, "stevedore artifacts lines", offload.ToolGrep, "stevedore artifacts grep",
	offload.ToolJQ, "stevedore artifacts jq", offload.ToolSQL, "stevedore artifacts sql")

// restartTimeout is the time that workers and servers get to restart.
const restartTimeout = 30 * time.Second

// AskAgain is Ask for a service that has answered before: it repeats the request
// while the bus or the workers restart.
func AskAgain[In, Out any](ctx context.Context, o *Options, b *bus.Bus, op *rpc.Op[In, Out], in In) (Answer[Out], error) {
	for deadline := time.Now().Add(restartTimeout); ; {
		answer, err := Ask(ctx, o, b, op, in)
		if !errors.Is(err, errNoWorker) && !errors.Is(err, errDisconnected) || time.Now().After(deadline) {
			return answer, err
		}
		if tools.Sleep(ctx, time.Second) != nil {
			return answer, ctx.Err()
		}
	}
}

// printText prints the text of an answer for models, or the answer if it has none. Of an artifact that is not text,
// it says how a person gets the bytes.
func (o *Options) printText(out io.Writer, body []byte) error {
	var answer struct {
		Text      string `json:"text"`
		Artifact  string `json:"artifact_id"`
		MediaType string `json:"media_type"` // only if it is not text
		Size      int64  `json:"size"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	switch {
	case answer.Text == "": // an answer without a text for models, such as a record
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, body, "", "  "); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		answer.Text = tools.EscapeJSON(pretty.String())
	case answer.MediaType != "" && answer.Artifact != "":
		answer.Text = offload.NotText(answer.Artifact, answer.MediaType, answer.Size) + "; save it: " +
			o.Connection.Command("artifacts", "get", answer.Artifact, "--all", "-o", "FILE")
	}
	if !strings.HasSuffix(answer.Text, "\n") {
		answer.Text += "\n"
	}
	_, err := io.WriteString(out, answer.Text)
	return err
}

package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const tasksHelp = `Show the calls of a session: async, running and queued calls. A call that has ended
and was not async is listed only by "get ID".
The states are queued, running, waiting (for a model, or for another call), input_required
(a person must approve the call), completed, failed, cancelled, timeout and unknown.

  stevedore tasks ls --session s1
  stevedore tasks ls --limit 50        the newest 50; the last line says how to continue
  stevedore tasks get ID
  stevedore tasks watch ID     print the progress until the call has ended
  stevedore tasks cancel ID    stop the tool and its processes, and discard its result`

func newTasksCommand() *cobra.Command {
	o := new(client.Options)
	cmd := o.Group("tasks", "List, watch and cancel the calls of a session", tasksHelp, "task")
	o.AddSessionFlag(cmd, "tasks")
	byID := func(args []string) (rpc.TaskRequest, error) { return rpc.TaskRequest{ID: args[0]}, nil }
	cmd.AddCommand(
		newListTasksCommand(o),
		client.RequestCommand(o, "get ID", "Show the state of a call", rpc.GetTask, byID),
		client.RequestCommand(o, "cancel ID", "Cancel a call that has not ended", rpc.CancelTask, byID),
		o.Command("watch ID", "Print the progress of a call until it has ended", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
			return watchTask(ctx, o, b, args[0], cmd)
		}),
	)
	o.Complete(client.Listed(rpc.ListTasks, func(l task.Listing) []task.Task { return l.Tasks }, func(t task.Task) string { return t.ID }), cmd.Commands()...)
	return cmd
}

func newListTasksCommand(o *client.Options) *cobra.Command {
	var page task.Page
	cmd := client.RequestCommand(o, "ls", "List the async, running and queued calls of the session", rpc.ListTasks,
		func([]string) (rpc.TaskRequest, error) { return rpc.TaskRequest{Page: page}, nil },
		func(cmd *cobra.Command, list task.Listing) error {
			if !cmd.Flags().Changed("session") {
				fmt.Fprintf(cmd.ErrOrStderr(), "The calls of the session %s; for those of another one, add --session (see %s).\n", o.Session,
					o.Connection.Command("sessions", "ls"))
			}
			return client.PrintTable(cmd.OutOrStdout(), list.Tasks, list.Text(), []string{"id", "state", "tool", "time", "details"}, func(t task.Task) []any {
				return []any{t.ID, t.State, t.Tool, t.TimeText(), t.Details()}
			})
		})
	addPage(cmd, &page.Limit, "newest first; default all, oldest first, up to 500")
	cmd.Flags().StringVar(&page.After, "after", "", "continue after this `PLACE`, which the page before printed")
	return cmd
}

// watchTask prints the progress of a task until the task has ended.
func watchTask(ctx context.Context, o *client.Options, b *bus.Bus, id string, cmd *cobra.Command) error {
	session, call := tools.TokenOf(o.Session), tools.TokenOf(id)
	events := make(chan *nats.Msg, 256)
	for _, subject := range []string{b.Progress(session, call), b.Stored(b.Result(session, call)), b.Stored(b.Completion(session, call))} {
		sub, err := b.Conn().ChanSubscribe(subject, events)
		if err != nil {
			return fmt.Errorf("watch task %q: %w", id, err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	// Events are lost while the connection is down, so get the task again afterwards.
	reconnected := b.Conn().StatusChanged(nats.CONNECTED)
	defer b.Conn().RemoveStatusListener(reconnected)
	shown := "" // the last line of progress
	for ask := client.Ask[rpc.TaskRequest, task.Task]; ; ask = client.AskAgain[rpc.TaskRequest, task.Task] {
		answer, err := ask(ctx, o, b, rpc.GetTask, rpc.TaskRequest{ID: call})
		if err != nil {
			return err
		}
		if err := answer.Print(o, cmd); err != nil {
			return err
		}
		if t := answer.Out; !t.EndedAt.IsZero() {
			if t.State != task.Completed {
				return cli.Exit(cli.ExitToolError, "")
			}
			return nil
		}
		if err := nextChange(ctx, o, b, b.Progress(session, call), events, reconnected, &shown, cmd.OutOrStdout()); err != nil {
			return err
		}
	}
}

// nextChange prints progress until the state of the task may have changed. An agent
// reports each piece of its text, so a line like the last one, which is in shown, is not
// repeated.
func nextChange(ctx context.Context, o *client.Options, b *bus.Bus, progress string, events <-chan *nats.Msg,
	reconnected <-chan nats.Status, shown *string, out io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			if cause := client.Outage(ctx, b); cause != nil {
				return fmt.Errorf("%w; a running task continues: watch it again when the bus is back", cause)
			}
			return cli.Exit(cli.ExitPending, "interrupted; the task continues")
		case <-reconnected:
			return nil
		case msg := <-events:
			if msg.Subject != progress {
				return nil
			}
			var p tools.ProgressEvent
			if err := json.Unmarshal(msg.Data, &p); err != nil {
				continue // not an event of a worker
			}
			line := p.Message
			if o.JSON {
				line = string(msg.Data)
			} else if p.Total > 0 {
				line = fmt.Sprintf("%3.0f%%  %s", 100*p.Done/p.Total, p.Message)
			}
			if line == *shown {
				continue
			}
			*shown = line
			var err error
			if o.JSON {
				err = cli.JSON(out, json.RawMessage(msg.Data))
			} else {
				err = cli.Line(out, "%s", line)
			}
			if err != nil {
				return err
			}
		}
	}
}

// addPage adds --limit, with a note about the order.
func addPage(cmd *cobra.Command, limit *int, note string) {
	cmd.Flags().Func("limit", "print at most this `NUMBER` of them, "+note, func(text string) error {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return errors.New("want 0 or more")
		}
		*limit = int(n)
		return nil
	})
}

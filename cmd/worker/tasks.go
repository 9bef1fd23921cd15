package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

const tasksHelp = `See what goes on in a session: jobs in the background, calls that run, and calls
that wait for a worker. A call that has ended and was no job is found by its ID only.
A task is queued, running, succeeded, failed, cancelled, timed_out or unknown.

  worker tasks ls --session s1
  worker tasks get ID
  worker tasks watch ID     progress, until it has ended
  worker tasks cancel ID    stops the tool and its processes; a late result loses

` + cli.ExitCodesHelp

func newTasksCommand() *cobra.Command {
	o := new(asking)
	cmd := &cobra.Command{
		Use:     "tasks",
		Aliases: []string{"task"},
		Short:   "List, watch and cancel what goes on in a session",
		Long:    tasksHelp,
	}
	o.addFlags(cmd, "tasks")
	byID := func(args []string) (any, error) { return rpc.TaskRequest{ID: args[0]}, nil }
	cmd.AddCommand(
		o.command("ls", "List the jobs of the session, and what runs or waits now", 0, "task", "list", func([]string) (any, error) { return struct{}{}, nil }),
		o.command("get ID", "Show where a call stands", 1, "task", "get", byID),
		o.command("cancel ID", "Cancel a call that has not ended", 1, "task", "cancel", byID),
		&cobra.Command{
			Use:   "watch ID",
			Short: "Follow a call until it has ended",
			Args:  cli.Args(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				return o.with(cmd, func(ctx context.Context, b *bus.Bus) error {
					return watchTask(ctx, o, b, args[0], cmd.OutOrStdout())
				})
			},
		},
	)
	return cmd
}

// watchTask prints progress as it comes, and ends with the task.
func watchTask(ctx context.Context, o *asking, b *bus.Bus, id string, out io.Writer) error {
	session, call := tools.TokenOf(o.session), tools.TokenOf(id)
	events := make(chan *nats.Msg, 256)
	for _, subject := range []string{b.Progress(session, call), b.Result(session, call), b.Completion(session, call)} {
		sub, err := b.Conn().ChanSubscribe(subject, events)
		if err != nil {
			return fmt.Errorf("watch task %q: %w", id, err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	// What happens while the connection is lost is not heard.
	back := b.Conn().StatusChanged(nats.CONNECTED)
	defer b.Conn().RemoveStatusListener(back)
	for ask := o.ask; ; ask = o.askAgain {
		body, err := ask(ctx, b, "task", "get", rpc.TaskRequest{ID: call})
		if err != nil {
			return err
		}
		if err := o.print(out, body); err != nil {
			return err
		}
		var task rpc.Task
		if err := json.Unmarshal(body, &task); err != nil {
			return fmt.Errorf("watch task %q: %w", id, err)
		}
		if !task.EndedAt.IsZero() {
			if task.State != rpc.Succeeded {
				return cli.Exit(cli.ExitToolError, "")
			}
			return nil
		}
		if err := nextChange(ctx, o, b, b.Progress(session, call), events, back, out); err != nil {
			return err
		}
	}
}

// restartPatience is how long nobody may answer while something is watched:
// workers that are restarted are back by then.
const restartPatience = 30 * time.Second

// askAgain is ask for one who was answered before: it asks again while the bus
// or the workers are restarted.
func (o *asking) askAgain(ctx context.Context, b *bus.Bus, group, function string, in any) ([]byte, error) {
	for giveUp := time.Now().Add(restartPatience); ; {
		body, err := o.ask(ctx, b, group, function, in)
		if !errors.Is(err, errNobody) && !errors.Is(err, errLost) || time.Now().After(giveUp) {
			return body, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// nextChange prints progress until something else happens, or may have happened.
func nextChange(ctx context.Context, o *asking, b *bus.Bus, progress string, events <-chan *nats.Msg, back <-chan nats.Status, out io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			if cause := gone(ctx, b); cause != nil {
				return fmt.Errorf("%w; the task goes on where it can: watch it again when the bus is back", cause)
			}
			return cli.Exit(cli.ExitPending, "stopped watching; the task goes on")
		case <-back:
			return nil
		case msg := <-events:
			if msg.Subject != progress {
				return nil
			}
			var p tools.ProgressEvent
			if err := json.Unmarshal(msg.Data, &p); err != nil {
				continue // somebody else's
			}
			line := string(msg.Data)
			if !o.json {
				line = p.Message
				if p.Total > 0 {
					line = fmt.Sprintf("%3.0f%%  %s", 100*p.Done/p.Total, p.Message)
				}
			}
			if _, err := fmt.Fprintln(out, cli.Printable(out, line)); err != nil {
				return err
			}
		}
	}
}

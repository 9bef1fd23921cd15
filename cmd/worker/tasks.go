package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

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
	session, call := token(o.session), token(id)
	events := make(chan *nats.Msg, 256)
	for _, subject := range []string{b.Progress(session, call), b.Result(session, call), b.Completion(session, call)} {
		sub, err := b.Conn().ChanSubscribe(subject, events)
		if err != nil {
			return fmt.Errorf("watch task %q: %w", id, err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	for {
		body, err := o.ask(ctx, b, "task", "get", rpc.TaskRequest{ID: call})
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
		if err := nextChange(ctx, o, b.Progress(session, call), events, out); err != nil {
			return err
		}
	}
}

// nextChange prints progress until something else happens.
func nextChange(ctx context.Context, o *asking, progress string, events <-chan *nats.Msg, out io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			return cli.Exit(cli.ExitPending, "stopped watching; the task goes on")
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

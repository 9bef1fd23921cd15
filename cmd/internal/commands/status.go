package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const statusHelp = `Show the state of an installation: the server, the streams and how full they are, the
queues with their waiting and running calls, the workers, the channels, the heartbeats with
their last runs and what these cost, and what needs attention. With --check, the exit code is 1 if
something needs attention. With --tenants, show a line for each tenant of a directory; see
"stevedore serve".

  stevedore status
  stevedore status --check --json`

func newStatusCommand() *cobra.Command {
	var check bool
	var tenants tenantsSetting
	o := new(client.Options)
	cmd := o.Command("status", "Show the server, streams, queues, workers, channels and heartbeats, and what needs attention",
		func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
			s := client.ReadStatus(ctx, b, &o.Connection)
			var beats []agents.Schedule // nil: not known
			if len(s.Errors) == 0 {     // otherwise the server may not answer
				beats = []agents.Schedule{}
				for beat, err := range agents.Schedules(ctx, b, bus.Heartbeat) {
					if beats = append(beats, beat); err != nil {
						beats, s.Errors = nil, append(s.Errors, "heartbeats: "+err.Error())
					}
				}
			}
			var err error
			if o.JSON {
				err = cli.JSON(cmd.OutOrStdout(), struct {
					status.Status
					Heartbeats []agents.Schedule `json:"heartbeats,omitzero"`
				}{s, beats})
			} else {
				err = printStatus(cmd.OutOrStdout(), s, beats)
			}
			if n := len(s.Problems) + len(s.Errors); err == nil && check && n > 0 {
				err = cli.Exit(cli.ExitFailed, "problems: %d", n)
			}
			return err
		})
	one := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if tenants.Dir == "" {
			return one(cmd, args)
		}
		n, err := printTenants(cmd, tenants.Dir, o.JSON)
		if err == nil && check && n > 0 {
			err = cli.Exit(cli.ExitFailed, "tenants with problems: %d", n)
		}
		return err
	}
	cli.AddSettings(cmd.Flags(), &tenants)
	cmd.Long = statusHelp
	o.AddFlags(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "exit with code 1 if something needs attention")
	return cmd
}

func printStatus(out io.Writer, s status.Status, beats []agents.Schedule) error {
	cluster := ""
	if s.Server.Cluster != "" {
		cluster = ", cluster " + s.Server.Cluster
	}
	_ = cli.Line(out, "Server %s, nats-server %s%s, %.1f ms away", s.Server.URL, s.Server.Version, cluster, s.Server.RTTms) // Print fails, too
	fmt.Fprintln(out)

	streams := cli.NewTable("stream", "messages", "bytes", "fill", "oldest", "replicas", "leader")
	for _, v := range s.Streams {
		fill := "-"
		if v.MaxBytes > 0 {
			fill = fmt.Sprintf("%.0f %%", 100*v.Fill)
		}
		streams.Row(v.Name, v.Messages, v.Bytes, fill, age(s.At, v.Oldest), v.Replicas, dash(v.Leader))
	}
	queues := cli.NewTable("queue", "waiting", "running", "workers", "first in line")
	for _, v := range s.Queues {
		queues.Row(v.Name, v.Waiting, v.Running, v.Workers, firstInLine(v.First))
	}
	workers := cli.NewTable("worker", "version", "up", "queues", "running", "ended")
	for _, v := range s.Workers {
		var ended int64
		for _, n := range v.Ended {
			ended += n
		}
		slices.Sort(v.Queues)
		workers.Row(v.Name, v.Version, age(s.At, v.Started), strings.Join(v.Queues, ","), v.Running, ended)
	}
	channels := cli.NewTable("channel", "kind", "waiting", "sending", "served")
	for _, v := range s.Channels {
		channels.Row(v.Name, dash(v.Kind), v.Waiting, v.Sending, v.Served)
	}
	heartbeats := cli.NewTable("heartbeat", "when", "next", "last run", "outcome", "turns", "tokens", "cost")
	for _, v := range beats {
		due, outcome := "-", "-"
		if run := v.LastRun; run != nil {
			due, outcome = cli.Time(run.Due), run.Text()
		}
		heartbeats.Row(v.Name, v.When, v.Next, due, outcome, v.Used.Turns, v.Used.Total(), costText(v.Used.Usage))
	}
	for _, t := range []struct {
		table *cli.Table
		empty string
	}{
		{streams, "No streams."},
		{queues, "No queue has had a worker yet."},
		{workers, "Workers that answered: none."},
		{channels, "No channel has had a notification yet."},
		{heartbeats, "No heartbeat is scheduled: HEARTBEAT.md is empty or missing, or no worker has a --model. That costs nothing."},
	} {
		if t.table == heartbeats && beats == nil {
			continue
		}
		if err := t.table.Print(out, t.empty); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	for _, e := range s.Errors {
		_ = cli.Line(out, "! could not read the %s", e)
	}
	for _, p := range s.Problems {
		_ = cli.Line(out, "! %s", p)
	}
	for _, n := range s.Notes {
		_ = cli.Line(out, "%s", n)
	}
	if len(s.Errors)+len(s.Problems) == 0 {
		fmt.Fprintln(out, "Nothing needs attention.")
	}
	return nil
}

// firstInLine names the sessions that have the first calls of a queue.
func firstInLine(sessions []status.Backlog) string {
	const shown = 3
	var parts []string
	for _, b := range sessions[:min(shown, len(sessions))] {
		parts = append(parts, fmt.Sprintf("%s %d", tools.Excerpt(b.Session, 40), b.Calls))
	}
	if more := len(sessions) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return dash(strings.Join(parts, ", "))
}

// age returns how long ago a time was, in its largest unit.
func age(now, at time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return "-"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	}
}

func dash(text string) string { return cmp.Or(text, "-") }

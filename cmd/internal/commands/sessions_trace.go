package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// lastRun is the value of --trace without a run.
const lastRun = "last"

// showTrace prints what a run did, one step per line.
func showTrace(ctx context.Context, o *client.Options, b *bus.Bus, session, run string, out io.Writer) error {
	if run == lastRun {
		run = ""
	}
	t, err := agents.GetTrace.Here(ctx, b, "", agents.SessionRequest{Session: session, Run: run})
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.JSON(out, t)
	}
	table := cli.NewTable("at", "took", "step", "state", "tokens in", "tokens out", "cost", "text")
	addSteps(table, t.Run.At, 0, t.Run)
	if err := table.Print(out, ""); err != nil {
		return err
	}
	if t.Cut {
		_, err = fmt.Fprintln(out, "The run has more steps than this.")
	}
	return err
}

// addSteps adds a row for a step, and below it, indented, those of its steps.
func addSteps(t *cli.Table, begin time.Time, depth int, s *agent.TraceStep) {
	took := "-"
	if !s.EndedAt.IsZero() {
		took = s.EndedAt.Sub(s.At).Round(time.Millisecond).String()
	}
	name := strings.TrimSpace(fmt.Sprintf("%s %s", s.Kind, s.Name))
	in, outTokens := "-", "-"
	if s.Usage.Total() > 0 {
		in, outTokens = fmt.Sprint(s.Usage.Input), fmt.Sprint(s.Usage.Output)
	}
	shown := cmp.Or(s.Args, s.Text)
	if s.State == string(tools.Failed) && s.Args != "" {
		shown = s.Args + ": " + s.Text
	}
	t.Row("+"+s.At.Sub(begin).Round(time.Millisecond).String(), took, strings.Repeat("  ", depth)+name, s.State, in, outTokens, costText(s.Usage),
		tools.Excerpt(tools.OneLine(shown), 160))
	for _, step := range s.Steps {
		addSteps(t, begin, depth+1, step)
	}
}

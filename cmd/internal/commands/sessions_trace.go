package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
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

// maxOtherRuns is how many other runs showTrace names.
const maxOtherRuns = 5

// showTrace prints what a run did, one step per line, and which other runs there are.
func showTrace(ctx context.Context, o *client.Options, b *bus.Bus, session, run string, out io.Writer) error {
	if run == lastRun {
		run = ""
	}
	t, err := agents.GetTrace.Here(ctx, b, "", agents.SessionRequest{Session: session, Run: run})
	if tools.CodeOf(err) == tools.CodeNotFound && run != "" {
		if last, lastErr := agents.GetTrace.Here(ctx, b, "", agents.SessionRequest{Session: session}); lastErr == nil {
			var known []string
			for _, r := range slices.Backward(last.Runs[max(0, len(last.Runs)-maxOtherRuns):]) {
				known = append(known, r.ID)
			}
			return cli.Exit(cli.ExitNotFound, "session %q has no run %q; its newest runs are %s", session, run, strings.Join(known, ", "))
		}
	}
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.JSON(out, t)
	}
	steps := traceTable{Table: cli.NewTable("at", "took", "step", "state", "tokens in", "tokens out", "cost", "text"), begin: t.Run.At}
	steps.add(0, t.Run)
	if err := steps.Print(out, ""); err != nil {
		return err
	}
	if t.Cut {
		fmt.Fprintln(out, "The run has more steps than this.")
	}
	if s := steps.slowest; len(t.Run.Steps) > 1 {
		_ = cli.Line(out, "Slowest step: %s at %s, %s.", stepName(s), steps.at(s), took(s))
	}
	if s := steps.dearest; len(t.Run.Steps) > 1 && s != nil {
		_ = cli.Line(out, "Dearest step: %s at %s, cost %s.", stepName(s), steps.at(s), costText(s.Usage))
	}
	others := slices.DeleteFunc(t.Runs, func(r *agent.TraceStep) bool { return r.ID == t.Run.ID })
	if len(others) == 0 {
		return nil
	}
	table := cli.NewTable("run", "at", "state", "text")
	for _, r := range slices.Backward(others[max(0, len(others)-maxOtherRuns):]) {
		table.Row(r.ID, r.At, r.State, tools.Excerpt(r.Text, 80))
	}
	fmt.Fprintln(out)
	_ = cli.Line(out, "Other runs of the session, newest first; to show one: %s", o.Connection.Command("sessions", "show", session, "--trace", "RUN"))
	return table.Print(out, "")
}

// traceTable has a row for each step. slowest and dearest are among the steps without steps of their own.
type traceTable struct {
	*cli.Table
	begin            time.Time
	slowest, dearest *agent.TraceStep
}

func (t *traceTable) at(s *agent.TraceStep) string {
	return "+" + s.At.Sub(t.begin).Round(time.Millisecond).String()
}

// add adds a row for a step, and below it, indented, those of its steps.
func (t *traceTable) add(depth int, s *agent.TraceStep) {
	in, outTokens := "-", "-"
	if s.Usage.Total() > 0 {
		in, outTokens = fmt.Sprint(s.Usage.Input), fmt.Sprint(s.Usage.Output)
	}
	shown := cmp.Or(asked(s.Args), s.Text)
	if s.State == string(tools.Failed) && s.Args != "" {
		shown = asked(s.Args) + ": " + s.Text
	}
	name := strings.ReplaceAll(strings.Repeat("  ", depth)+stepName(s), " ", cli.NoBreak)
	t.Row(t.at(s), took(s), name, s.State, in, outTokens, costText(s.Usage), tools.Excerpt(tools.OneLine(shown), 160))
	for _, step := range s.Steps {
		t.add(depth+1, step)
	}
	if len(s.Steps) > 0 || depth == 0 {
		return
	}
	if t.slowest == nil || s.EndedAt.Sub(s.At) > t.slowest.EndedAt.Sub(t.slowest.At) {
		t.slowest = s
	}
	if s.Usage.Cost > 0 && (t.dearest == nil || s.Usage.Cost > t.dearest.Usage.Cost) {
		t.dearest = s
	}
}

func stepName(s *agent.TraceStep) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", s.Kind, s.Name))
}

func took(s *agent.TraceStep) string {
	if s.EndedAt.IsZero() {
		return "-"
	}
	return s.EndedAt.Sub(s.At).Round(time.Millisecond).String()
}

// asked says in one line what a call is about, as the page does: the values of its arguments, or the
// start of them.
func asked(args string) string {
	d := json.NewDecoder(strings.NewReader(args))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return args
	}
	var fields []string
	isText, text := false, ""
	for d.More() {
		var value json.RawMessage
		name, err := d.Token()
		if err != nil || d.Decode(&value) != nil {
			return args // only their start
		}
		if isText = value[0] == '"'; !isText || json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		fields = append(fields, fmt.Sprintf("%s: %s", name, text))
	}
	if isText && len(fields) == 1 {
		return text
	}
	return strings.Join(fields, "  ")
}

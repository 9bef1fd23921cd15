package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const sessionsHelp = `Read or delete the conversations of agents on the bus.

  stevedore sessions ls                --text WORDS finds those that contain them
  stevedore sessions show s1
  stevedore sessions show s1 --trace   the steps of the last run: turns, calls, sub-agents, approvals
  stevedore sessions show s1 --trace RUN
  stevedore sessions export s1         the messages that the model receives, as JSON
  stevedore sessions export s1 --log   all entries of the conversation, one JSON object per line
  stevedore sessions rm s1             delete the conversation and those of its sub-agents`

func newSessionsCommand() *cobra.Command {
	o := new(client.Options)
	cmd := o.Group("sessions", "List, show, export and delete the conversations of agents", sessionsHelp, "session")
	allEntries := false
	export := o.Command("export SESSION", "Print a conversation as JSON", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		entries, err := readConversation(ctx, b, o, args[0])
		if err != nil {
			return err
		}
		if !allEntries {
			return cli.JSON(cmd.OutOrStdout(), agent.Messages(entries))
		}
		return cli.JSONLines(cmd.OutOrStdout(), entries)
	})
	export.Flags().BoolVar(&allEntries, "log", false, "print all entries of the conversation, one per line")
	query := agents.ListQuery{OpenTotals: true}
	print := func(cmd *cobra.Command, list agents.SessionList) error {
		return listSessions(cmd.OutOrStdout(), query, list)
	}
	ls := client.RequestCommand(o, "ls", "List the sessions that have a conversation", agents.ListSessions, func([]string) (agents.ListQuery, error) {
		if query.Text != "" || query.Before > 0 {
			query.Limit = cmp.Or(query.Limit, 100)
		}
		return query, nil
	}, print)
	ls.Flags().StringVar(&query.Text, "text", "", "only those with this `TEXT` in their name or in a message")
	addPage(ls, &query.Limit, "the one that was used last first; default all")
	ls.Flags().Uint64Var(&query.Before, "after", 0, "continue after this `NUMBER`, which the page before printed")
	cmd.AddCommand(
		ls,
		newShowSessionCommand(o),
		export,
		newRemoveSessionCommand(o),
	)
	o.Complete(client.SessionNames, cmd.Commands()...)
	return cmd
}

func newShowSessionCommand(o *client.Options) *cobra.Command {
	run := ""
	cmd := o.Command("show SESSION [RUN]", "Print a conversation", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		if len(args) > 1 && run != lastRun {
			return cli.Exit(cli.ExitUsage, "a RUN needs --trace: %s", o.Connection.Command("sessions", "show", args[0], "--trace", args[1]))
		}
		if len(args) > 1 {
			run = args[1]
		}
		if run != "" {
			return showTrace(ctx, o, b, args[0], run, out)
		}
		entries, err := readConversation(ctx, b, o, args[0])
		if err != nil {
			return err
		}
		if o.JSON {
			return cli.JSONLines(out, entries)
		}
		if err := showSession(out, entries); err != nil {
			return err
		}
		total := agent.TotalOf(entries)
		note := ""
		if total.Subagents > 0 {
			note = ", without its sub-agents"
		}
		_, err = fmt.Fprintf(out, "Total: %s%s\n", usedText(total.Turns, total.Usage), note)
		return err
	})
	cmd.Flags().StringVar(&run, "trace", "", "print what this `RUN` did, with times, tokens and sub-agents; without a value, the last run")
	cmd.Flags().Lookup("trace").NoOptDefVal = lastRun
	return cmd
}

func newRemoveSessionCommand(o *client.Options) *cobra.Command {
	force := false
	cmd := o.Command("rm SESSION", "Delete a conversation and those of its sub-agents", func(ctx context.Context, b *bus.Bus,
		cmd *cobra.Command, args []string) error {
		_, err := agents.RemoveSession.Here(ctx, b, "", agents.SessionRequest{Session: args[0], Force: force})
		if errors.Is(err, agents.ErrRunning) {
			return cli.Exit(cli.ExitPending, "session %q has a run that has not ended; see %s, or use --force",
				args[0], o.Connection.Command("tasks", "ls", "--session", args[0]))
		}
		if err != nil || o.JSON {
			return err
		}
		return cli.Line(cmd.OutOrStdout(), "Session removed: %s", args[0])
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete it although a run has not ended; the worker that continues this run starts it again")
	return cmd
}

// readConversation reads the conversation of a session with any of its names.
func readConversation(ctx context.Context, b *bus.Bus, o *client.Options, session string) ([]agent.Entry, error) {
	name, err := agents.NameOf(ctx, b, session)
	if err != nil {
		return nil, err
	}
	return client.ReadConversation(ctx, b, &o.Connection, name)
}

func listSessions(out io.Writer, query agents.ListQuery, list agents.SessionList) error {
	title, totals := "title", "total"
	if query.Text != "" {
		title = "match"
	}
	if query.Limit > 0 {
		totals = "total of these"
	}
	t := cli.NewTable("session", title, "turns", "tokens in", "tokens out", "cost", "last", "state")
	total, listed := agent.Total{}, map[string]bool{}
	for _, l := range list.Sessions {
		listed[l.Session] = l.Subagents > 0
	}
	for _, l := range list.Sessions {
		t.Row(l.Name, tools.Excerpt(cmp.Or(l.Match, l.Title), 60), l.Turns, l.Input, l.Output, costText(l.Usage), l.At, l.State)
		if !listed[l.Parent] { // otherwise, the line of the parent has it
			total.Include(l.Total)
		}
	}
	if len(list.Sessions) > 1 {
		t.Row(totals, "", total.Turns, total.Input, total.Output, costText(total.Usage), "", "")
	}
	return t.Print(out, "No sessions.")
}

// costText returns the cost of a usage, or "-" if the model has no price.
func costText(u agent.Usage) string {
	if u.Cost == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4f", u.Cost)
}

// usedText says what some turns used.
func usedText(turns int, u agent.Usage) string {
	text := fmt.Sprintf("%s, %d input tokens, %d output tokens", turnsText(turns), u.Input, u.Output)
	if u.Cost == 0 {
		return text
	}
	return text + ", cost " + costText(u)
}

func turnsText(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprint(n, " turns")
}

// maxShown is the length in bytes of a tool result that showSession prints.
const maxShown = 600

func showSession(out io.Writer, entries []agent.Entry) error {
	printEntry := func(e agent.Entry, who, text string) error {
		err := cli.Line(out, "%s  %s", e.At.Local().Format(time.DateTime), who)
		if err == nil && e.Kind == agent.KindAssistant && who == string(e.Kind) {
			err = writeMarkdown(out, text)
			text = ""
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n\n", text)
		}
		return err
	}
	for _, e := range entries {
		var err error
		switch {
		case e.Message != nil:
			if len(e.Files) > 0 {
				if err = printEntry(e, "instructions from "+strings.Join(e.Files, ", "), ""); err != nil {
					return err
				}
			}
			for _, block := range e.Message.Content {
				switch block.Type {
				case agent.TypeText:
					err = printEntry(e, string(e.Kind), block.Text)
				case agent.TypeToolUse:
					err = printEntry(e, "calls "+block.Name, tools.Excerpt(string(block.Input), maxShown))
				default:
					err = printEntry(e, block.Type, "")
				}
				if err != nil {
					return err
				}
			}
		case e.Kind == agent.KindResults:
			for _, a := range e.Results {
				if err = printEntry(e, fmt.Sprintf("result of %s (%s, %s)", a.Tool, a.Call, a.Outcome), tools.Excerpt(a.ForLLM, maxShown)); err != nil {
					return err
				}
			}
		case e.Kind == agent.KindOffloaded:
			err = printEntry(e, fmt.Sprintf("%d tool results moved out of the history", len(e.Offloaded)), "")
		case e.Kind == agent.KindCompacted && e.Compaction != nil:
			err = printEntry(e, turnsText(e.Compaction.Turns)+" replaced by a summary", e.Compaction.Summary)
		case e.Kind == agent.KindNotice && e.Notice != nil:
			err = printEntry(e, "notice: "+e.Notice.Title, tools.Excerpt(e.Notice.Text, maxShown))
		case e.Kind == agent.KindWaiting && e.Wait != nil:
			why := ""
			if e.Wait.Error != nil {
				why = e.Wait.Error.Message
			}
			err = printEntry(e, "waiting for the model until "+e.Wait.Until.Local().Format(time.DateTime), why)
		case e.Kind == agent.KindResumed:
			err = printEntry(e, "continued", "")
		case e.Kind == agent.KindEnd && e.End != nil:
			text := usedText(e.End.Turns, e.End.Usage)
			if why := e.End.Err(); why != nil {
				text += "\n" + why.Error()
			}
			err = printEntry(e, "end: "+string(e.End.Reason), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

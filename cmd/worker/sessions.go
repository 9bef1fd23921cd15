package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const sessionsHelp = `Read or delete the conversations of agents on the bus.

  stevedore sessions ls
  stevedore sessions show s1
  stevedore sessions show s1 --trace   the steps of the last run: turns, calls, sub-agents, approvals
  stevedore sessions export s1         the messages that the model receives, as JSON
  stevedore sessions export s1 --log   all entries of the conversation, one JSON object per line
  stevedore sessions rm s1             delete the conversation and those of its sub-agents`

func newSessionsCommand() *cobra.Command {
	o := new(client.Options)
	cmd := &cobra.Command{
		Use:     "sessions",
		Aliases: []string{"session"},
		Short:   "List, show, export and delete the conversations of agents",
		Long:    sessionsHelp,
	}
	o.AddFlags(cmd)
	allEntries := false
	export := sessionCommand(o, "export SESSION", "Print a conversation as JSON", func(out io.Writer, entries []agent.Entry) error {
		if !allEntries {
			return cli.JSON(out, agent.Messages(entries))
		}
		return cli.JSONLines(out, entries)
	})
	export.Flags().BoolVar(&allEntries, "log", false, "print all entries of the conversation, one per line")
	limit, after := 0, uint64(0)
	ls := o.Command("ls", "List the sessions that have a conversation", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
		return listSessions(ctx, o, b, after, limit, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	addPage(ls, &limit, "the one that was used last first; default all")
	ls.Flags().Uint64Var(&after, "after", 0, "continue after this `NUMBER`, which the page before printed")
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
	cmd := o.Command("show SESSION", "Print a conversation", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		if run != "" {
			return showTrace(ctx, o, b, args[0], run, out)
		}
		entries, err := client.ReadConversation(ctx, b, args[0])
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
		_, err = fmt.Fprintf(out, "Total: %d turns, %d input tokens, %d output tokens%s\n", total.Turns, total.Input, total.Output, withCost(total.Usage))
		return err
	})
	cmd.Flags().StringVar(&run, "trace", "", "print what this `RUN` did, with times, tokens and sub-agents; without a value, the last run")
	cmd.Flags().Lookup("trace").NoOptDefVal = lastRun
	return cmd
}

func newRemoveSessionCommand(o *client.Options) *cobra.Command {
	force := false
	cmd := o.Command("rm SESSION", "Delete a conversation and those of its sub-agents", func(ctx context.Context, b *bus.Bus, _ *cobra.Command, args []string) error {
		return removeSession(ctx, b, args[0], force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete it although a run has not ended; the worker that continues this run starts it again")
	return cmd
}

// removeSession deletes the log of a session, last, after those of its sub-agents.
func removeSession(ctx context.Context, b *bus.Bus, id string, force bool) error {
	store := session.New(b)
	bodies, last, err := store.Read(ctx, tools.TokenOf(id))
	if err != nil {
		return err
	}
	if len(bodies) == 0 {
		return cli.Exit(cli.ExitNotFound, "session %q has no conversation", id)
	}
	entries, err := client.DecodeConversation(bodies)
	if err != nil && !force {
		return err
	}
	if err == nil && agent.IsOpen(entries) && !force {
		return cli.Exit(cli.ExitPending, "session %q has a run that has not ended; see stevedore tasks ls --session %s, or use --force", id, cli.ShellWord(id))
	}
	for _, child := range agent.SubagentSessions(entries) {
		err := removeSession(ctx, b, child, force)
		if failure, ok := errors.AsType[*cli.Error](err); ok && failure.Code == cli.ExitNotFound {
			continue
		}
		if err != nil {
			return err
		}
	}
	return store.Remove(ctx, tools.TokenOf(id), last)
}

// sessionCommand returns a command that reads one conversation.
func sessionCommand(o *client.Options, use, short string, do func(io.Writer, []agent.Entry) error) *cobra.Command {
	return o.Command(use, short, func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		entries, err := client.ReadConversation(ctx, b, args[0])
		if err != nil {
			return err
		}
		return do(cmd.OutOrStdout(), entries)
	})
}

// sessionLine describes a session in the list.
type sessionLine struct {
	Session string    `json:"session"`
	Entries uint64    `json:"entries"`
	At      time.Time `json:"at"`
	State   string    `json:"state"`
	agent.Total
}

// pageOfSessions returns all sessions, or a page of them.
func pageOfSessions(ctx context.Context, b *bus.Bus, after uint64, limit int) (sizes []session.Size, next uint64, err error) {
	switch store := session.New(b); {
	case limit < 0:
		return nil, 0, errLimit
	case limit == 0 && after == 0:
		sizes, err = store.List(ctx)
		return sizes, 0, err
	default:
		return store.ListBack(ctx, after, cmp.Or(limit, 100))
	}
}

func listSessions(ctx context.Context, o *client.Options, b *bus.Bus, after uint64, limit int, out, stderr io.Writer) error {
	store := session.New(b)
	sizes, next, err := pageOfSessions(ctx, b, after, limit)
	if err != nil {
		return err
	}
	if next > 0 {
		defer fmt.Fprintf(stderr, "stevedore: there may be more: continue with --after %d\n", next)
	}
	lines := []sessionLine{}
	for _, size := range sizes {
		last, err := b.Last(ctx, bus.Sessions, b.Session(size.Session))
		if err != nil {
			return err
		}
		if last.Sequence == 0 {
			continue
		}
		line := sessionLine{Session: size.Session, Entries: size.Entries}
		e, err := agent.DecodeEntry(last.Body)
		switch {
		case err != nil:
			line.State = "unreadable"
		case e.Kind == agent.KindEnd && e.End != nil && e.Total != nil:
			line.At, line.State, line.Total = e.At, string(e.End.Reason), *e.Total
		default: // the log must be read to know the usage
			line.At, line.State = e.At, "open"
			bodies, _, err := store.Read(ctx, size.Session)
			if err != nil {
				return err
			}
			if entries, err := client.DecodeConversation(bodies); err == nil {
				line.Total = agent.TotalOf(entries)
				if end := agent.LastEnd(entries); end != nil && !agent.IsOpen(entries) {
					line.State = string(end.Reason)
				}
			}
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b sessionLine) int { return b.At.Compare(a.At) })
	if o.JSON {
		return cli.JSONLines(out, lines)
	}
	t := cli.NewTable("session", "entries", "turns", "tokens in", "tokens out", "cost", "last", "state")
	total := agent.Total{}
	for _, l := range lines {
		t.Row(l.Session, l.Entries, l.Turns, l.Input, l.Output, costText(l.Usage), l.At, l.State)
		total.Turns += l.Turns
		total.Input, total.Output, total.Cost = total.Input+l.Input, total.Output+l.Output, total.Cost+l.Cost
	}
	if len(lines) > 1 {
		t.Row("total", "", total.Turns, total.Input, total.Output, costText(total.Usage), "", "")
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

func withCost(u agent.Usage) string {
	if u.Cost == 0 {
		return ""
	}
	return ", cost " + costText(u)
}

// maxShown is the length in bytes of a tool result that showSession prints.
const maxShown = 600

func showSession(out io.Writer, entries []agent.Entry) error {
	printEntry := func(e agent.Entry, who, text string) error {
		_, err := fmt.Fprintf(out, "%s  %s\n%s\n\n", e.At.Local().Format(time.DateTime), who, cli.Printable(out, text))
		return err
	}
	for _, e := range entries {
		var err error
		switch {
		case e.Message != nil:
			if len(e.Files) > 0 {
				if err = printEntry(e, "instructions from "+cli.Printable(out, strings.Join(e.Files, ", ")), ""); err != nil {
					return err
				}
			}
			for _, block := range e.Message.Content {
				switch block.Type {
				case agent.TypeText:
					err = printEntry(e, string(e.Kind), block.Text)
				case agent.TypeToolUse:
					err = printEntry(e, "calls "+cli.Printable(out, block.Name), tools.Excerpt(string(block.Input), maxShown))
				default:
					err = printEntry(e, cli.Printable(out, block.Type), "")
				}
				if err != nil {
					return err
				}
			}
		case e.Kind == agent.KindResults:
			for _, a := range e.Results {
				if err = printEntry(e, fmt.Sprintf("result of %s (%s, %s)", cli.Printable(out, a.Tool), a.Call, a.Outcome), tools.Excerpt(a.ForLLM, maxShown)); err != nil {
					return err
				}
			}
		case e.Kind == agent.KindOffloaded:
			err = printEntry(e, fmt.Sprintf("%d tool results moved out of the history", len(e.Offloaded)), "")
		case e.Kind == agent.KindCompacted && e.Compaction != nil:
			err = printEntry(e, fmt.Sprintf("%d turns replaced by a summary", e.Compaction.Turns), e.Compaction.Summary)
		case e.Kind == agent.KindNotice && e.Notice != nil:
			err = printEntry(e, "notice: "+cli.Printable(out, e.Notice.Title), tools.Excerpt(e.Notice.Text, maxShown))
		case e.Kind == agent.KindWaiting && e.Wait != nil:
			why := ""
			if e.Wait.Error != nil {
				why = e.Wait.Error.Message
			}
			err = printEntry(e, "waiting for the model until "+e.Wait.Until.Local().Format(time.DateTime), why)
		case e.Kind == agent.KindResumed:
			err = printEntry(e, "continued", "")
		case e.Kind == agent.KindEnd && e.End != nil:
			text := fmt.Sprintf("%d turns, %d input tokens, %d output tokens%s", e.End.Turns, e.End.Usage.Input, e.End.Usage.Output, withCost(e.End.Usage))
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

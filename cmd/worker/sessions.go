package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const sessionsHelp = `Read the conversations of agents, as they stand on the bus.

  worker sessions ls
  worker sessions show s1
  worker sessions export s1         the messages, as a model gets them, as JSON
  worker sessions export s1 --log   all entries of the log, one a line

` + cli.ExitCodesHelp

func newSessionsCommand() *cobra.Command {
	o := new(client.Options)
	cmd := &cobra.Command{
		Use:     "sessions",
		Aliases: []string{"session"},
		Short:   "List, show and export the conversations of agents",
		Long:    sessionsHelp,
	}
	o.AddFlags(cmd)
	whole := false
	export := sessionCommand(o, "export SESSION", "Print a conversation as JSON", func(out io.Writer, entries []agent.Entry) error {
		if !whole {
			return cli.JSON(out, agent.Messages(entries))
		}
		for _, e := range entries {
			data, err := bus.Encode(e)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "%s\n", data); err != nil {
				return err
			}
		}
		return nil
	})
	export.Flags().BoolVar(&whole, "log", false, "print all entries of the log, one a line")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "ls",
			Short: "List the sessions that have a conversation",
			Args:  cli.Args(cobra.NoArgs),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return o.With(cmd, func(ctx context.Context, b *bus.Bus) error { return listSessions(ctx, o, b, cmd.OutOrStdout()) })
			},
		},
		sessionCommand(o, "show SESSION", "Print a conversation", func(out io.Writer, entries []agent.Entry) error {
			if o.JSON {
				return cli.JSON(out, entries)
			}
			return showSession(out, entries)
		}),
		export,
	)
	return cmd
}

// sessionCommand is a command about one session.
func sessionCommand(o *client.Options, use, short string, do func(io.Writer, []agent.Entry) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.With(cmd, func(ctx context.Context, b *bus.Bus) error {
				entries, err := client.ReadConversation(ctx, b, args[0])
				if err != nil {
					return err
				}
				return do(cmd.OutOrStdout(), entries)
			})
		},
	}
}

// sessionLine is a session in the list.
type sessionLine struct {
	Session string    `json:"session"`
	Entries uint64    `json:"entries"`
	At      time.Time `json:"at"`
	State   string    `json:"state"`
}

func listSessions(ctx context.Context, o *client.Options, b *bus.Bus, out io.Writer) error {
	sizes, err := session.New(b).List(ctx)
	if err != nil {
		return err
	}
	lines := []sessionLine{}
	for _, size := range sizes {
		body, ok, err := b.Last(ctx, bus.Sessions, b.Session(size.Session))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		line := sessionLine{Session: size.Session, Entries: size.Entries}
		if e, err := agent.DecodeEntry(body); err != nil {
			line.State = "unreadable"
		} else {
			line.At, line.State = e.At, "open"
			if e.Kind == agent.KindEnd && e.End != nil {
				line.State = string(e.End.Reason)
			}
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b sessionLine) int { return b.At.Compare(a.At) })
	if o.JSON {
		return cli.JSON(out, lines)
	}
	t := cli.NewTable("session", "entries", "last", "state")
	for _, l := range lines {
		t.Row(l.Session, l.Entries, l.At, l.State)
	}
	return t.Print(out, "No sessions.")
}

// shownResult is how much of a tool result is shown, in bytes.
const shownResult = 600

func showSession(out io.Writer, entries []agent.Entry) error {
	say := func(e agent.Entry, who, text string) error {
		_, err := fmt.Fprintf(out, "%s  %s\n%s\n\n", e.At.Local().Format(time.DateTime), who, cli.Printable(out, text))
		return err
	}
	for _, e := range entries {
		var err error
		switch {
		case e.Message != nil:
			for _, block := range e.Message.Content {
				switch block.Type {
				case agent.TypeText:
					err = say(e, string(e.Kind), block.Text)
				case agent.TypeToolUse:
					err = say(e, "calls "+cli.Printable(out, block.Name), tools.Excerpt(string(block.Input), shownResult))
				default:
					err = say(e, cli.Printable(out, block.Type), "")
				}
				if err != nil {
					return err
				}
			}
		case e.Kind == agent.KindResults:
			for _, a := range e.Results {
				if err = say(e, fmt.Sprintf("result of %s (%s, %s)", cli.Printable(out, a.Tool), a.Call, a.Outcome), tools.Excerpt(a.ForLLM, shownResult)); err != nil {
					return err
				}
			}
		case e.Kind == agent.KindOffloaded:
			err = say(e, fmt.Sprintf("%d tool results left the history", len(e.Offloaded)), "")
		case e.Kind == agent.KindResumed:
			err = say(e, "taken up by another loop", "")
		case e.Kind == agent.KindEnd && e.End != nil:
			text := fmt.Sprintf("%d turns, %d tokens in, %d out", e.End.Turns, e.End.Usage.Input, e.End.Usage.Output)
			if why := e.End.Err(); why != nil {
				text += "\n" + why.Error()
			}
			err = say(e, "end: "+string(e.End.Reason), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

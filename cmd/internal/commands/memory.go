package commands

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nuid"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/memory"
	"github.com/stevedore-bus/stevedore/tools"
)

const memoryHelp = `Show and edit the notes that agents keep with the tools remember, recall and forget. A note
belongs to an owner: "owner" (see --memory of stevedore up), a session, or "shared". All agents
see the shared notes, and only you write them.

  stevedore memory ls
  stevedore memory ls --of me-42
  stevedore memory show ID
  stevedore memory add "the office is closed on Fridays"     a shared note
  stevedore memory rm ID`

const allOwners = "*"

func newMemoryCommand() *cobra.Command {
	o := new(client.Options)
	cmd := o.Group("memory", "Show and edit the notes of agents", memoryHelp)
	var owner string
	list := o.Command("ls", "List the notes, newest first", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
		of := owner
		if of != allOwners {
			of = tools.TokenOf(of)
		}
		notes, err := memory.New(b).List(ctx, of)
		if err != nil {
			return err
		}
		return client.PrintList(o.JSON, cmd.OutOrStdout(), notes, "There are no notes.", []string{"id", "owner", "session", "time", "text"}, func(n memory.Note) []any {
			return []any{n.ID, n.Owner, n.Session, n.At, tools.Excerpt(tools.OneLine(n.Text), 100)}
		})
	})
	list.Flags().StringVar(&owner, "of", allOwners, "`OWNER` of the notes; default all")
	var to string
	add := o.Command("add TEXT", "Add a note, by default for all agents", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		id, err := memory.New(b).Add(ctx, tools.TokenOf(to), "", nuid.Next(), args[0])
		if err != nil {
			return err
		}
		if o.JSON {
			return cli.JSON(cmd.OutOrStdout(), map[string]string{"id": id})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
		return err
	})
	add.Flags().StringVar(&to, "of", memory.Shared, "`OWNER` of the note")
	cmd.AddCommand(list, add,
		o.Command("show ID", "Print a note", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
			notes, err := memory.New(b).List(ctx, allOwners)
			i := slices.IndexFunc(notes, func(n memory.Note) bool { return n.ID == args[0] })
			switch {
			case err != nil:
			case i < 0:
				err = tools.Errorf(tools.CodeNotFound, "there is no note %q", args[0])
			case o.JSON:
				err = cli.JSON(cmd.OutOrStdout(), notes[i])
			default:
				_, err = fmt.Fprintln(cmd.OutOrStdout(), notes[i].Text)
			}
			return err
		}),
		o.Command("rm ID", "Remove a note", func(ctx context.Context, b *bus.Bus, _ *cobra.Command, args []string) error {
			return memory.New(b).Remove(ctx, allOwners, args[0])
		}))
	return cmd
}

package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const deadHelp = `Manage dead letters: calls, ticks, notifications and results that the workers could not
process, with the reason and the original message. They are kept for 30 days. When the
reason is fixed, retry publishes the message again. A call that became a dead letter has
a failed result; retry removes that result first.

  stevedore dead ls                --limit 50 prints 50; --after NUMBER continues
  stevedore dead show 17
  stevedore dead retry 17 18       or --all
  stevedore dead rm 17`

type deadOptions struct {
	client.Options
	Kind string `flag:"kind" unit:"KIND" oneof:"call,tick,notification,result" help:"of dead letters: call, tick, notification or result; default all"`
	all  bool
}

func newDeadCommand() *cobra.Command {
	o := new(deadOptions)
	cmd := o.Group("dead", "List, show, retry and remove dead letters", deadHelp)
	cli.AddOptions(cmd.PersistentFlags(), o)
	var query dead.Query
	ls := client.RequestCommand(&o.Options, "ls", "List dead letters, oldest first", rpc.ListDead, func([]string) (dead.Query, error) {
		query.Kind = o.Kind
		return query, nil
	}, printDead)
	addPage(ls, &query.Limit, "oldest first")
	ls.Flags().Uint64Var(&query.After, "after", 0, "print only those after this `NUMBER`")
	retry := o.Command("retry [NUMBER...]", "Publish the messages of dead letters again", o.each("retried", true))
	rm := o.Command("rm [NUMBER...]", "Remove dead letters for good", o.each("removed", false))
	for _, c := range []*cobra.Command{retry, rm} {
		c.Flags().BoolVar(&o.all, "all", false, "all dead letters, or all of --kind, instead of NUMBERs")
		c.PreRunE = func(_ *cobra.Command, args []string) error {
			if len(args) == 0 != o.all {
				return cli.Exit(cli.ExitUsage, "give the NUMBER of each dead letter, or --all; see %s", o.Connection.Command("dead", "ls"))
			}
			return nil
		}
	}
	cmd.AddCommand(ls, o.Command("show NUMBER", "Show a dead letter and its message", o.show), retry, rm)
	o.Complete(client.Listed(rpc.ListDead, func(p dead.Page) []dead.Stored { return p.Letters },
		func(l dead.Stored) string { return strconv.FormatUint(l.Number, 10) }), cmd.Commands()...)
	return cmd
}

// each retries or removes each dead letter that the arguments name, and prints done, such as
// "retried", for each.
func (o *deadOptions) each(done string, retry bool) client.Do {
	return func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		letters, err := o.named(ctx, b, args)
		if err != nil {
			return err
		}
		var errs []error
		rpc.ChangeLetters(ctx, b, letters, retry, func(letter dead.Stored, err error) {
			if err != nil {
				errs = append(errs, err)
				return
			}
			_ = cli.Line(cmd.OutOrStdout(), "%s %d: %s %s", done, letter.Number, letter.Kind, letter.Name)
		})
		return errors.Join(errs...)
	}
}

func (o *deadOptions) named(ctx context.Context, b *bus.Bus, args []string) ([]dead.Stored, error) {
	if o.all {
		page, err := dead.ListPage(ctx, b, dead.Query{Kind: o.Kind})
		return page.Letters, err
	}
	var letters []dead.Stored
	for _, arg := range args {
		number, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || number == 0 {
			return nil, cli.Exit(cli.ExitUsage, "%q is not the number of a dead letter; see %s", arg, o.Connection.Command("dead", "ls"))
		}
		if slices.ContainsFunc(letters, func(l dead.Stored) bool { return l.Number == number }) {
			continue // it is given twice
		}
		letter, err := dead.Get(ctx, b, number)
		if err != nil {
			return nil, err
		}
		letters = append(letters, letter)
	}
	return letters, nil
}

func printDead(cmd *cobra.Command, page dead.Page) error {
	return client.PrintTable(cmd.OutOrStdout(), page.Letters, "No dead letters.", []string{"number", "kind", "name", "at", "attempts", "reason"},
		func(l dead.Stored) []any {
			return []any{l.Number, l.Kind, l.Name, l.At, l.Attempts, tools.Excerpt(l.Reason, 100)}
		})
}

func (o *deadOptions) show(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
	letters, err := o.named(ctx, b, args)
	if err != nil {
		return err
	}
	letter, out := letters[0], cmd.OutOrStdout()
	if o.JSON {
		return cli.JSON(out, letter)
	}
	body, missing := letter.Message(ctx, b)
	letter.Body, letter.Gzip = nil, nil
	head, err := json.MarshalIndent(letter, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n\n%s\n", tools.EscapeJSON(string(head)), body)
	return cmp.Or(missing, err)
}

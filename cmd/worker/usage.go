package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const usageHelp = `Show how many tokens the agents used and what they cost, by day (UTC), model, session or
tool. What a turn used belongs to the tools whose results it read, in proportion to the
length of the results; "(prompt)" is what the other turns used. Costs need --price of the
process that runs the agents. Conversations that were deleted do not count.

  stevedore usage
  stevedore usage --by model --last 720h`

func newUsageCommand() *cobra.Command {
	o := new(client.Options)
	groups := []string{agents.ByDay, agents.ByModel, agents.BySession, agents.ByTool}
	var (
		by   string
		last time.Duration
	)
	cmd := o.Command("usage", "Show what agents used and what it cost", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
		if !slices.Contains(groups, by) || last <= 0 {
			return cli.Exit(cli.ExitUsage, "want --by %s and a positive --last", strings.Join(groups, " or "))
		}
		used, err := agents.ReadUsage(ctx, b, time.Now().Add(-last), by)
		if err != nil {
			return err
		}
		if o.JSON {
			return cli.JSON(cmd.OutOrStdout(), used)
		}
		return printUsage(cmd.OutOrStdout(), by, used)
	})
	cmd.Long = usageHelp
	o.AddFlags(cmd)
	cmd.Flags().StringVar(&by, "by", agents.ByDay, "`GROUP`: day, model, session or tool")
	cmd.Flags().DurationVar(&last, "last", 7*24*time.Hour, "`TIME` before now that counts")
	return cmd
}

func printUsage(out io.Writer, by string, used []agents.Used) error {
	table := cli.NewTable(by, "turns", "tokens in", "cached", "tokens out", "cost")
	var turns int
	var total agent.Usage
	for _, u := range used {
		table.Row(u.Of, u.Turns, u.Input, u.CachedInput, u.Output, costText(u.Usage))
		turns += u.Turns
		total.Add(&u.Usage)
	}
	if len(used) > 1 {
		var all any = turns
		if by == agents.ByTool {
			all = "" // several tools may share a turn
		}
		table.Row("total", all, total.Input, total.CachedInput, total.Output, costText(total))
	}
	return table.Print(out, "No agent used a model in this time.")
}

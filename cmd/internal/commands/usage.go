package commands

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/savings"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const usageHelp = `Show how many tokens the agents used and what they cost, by day (UTC), model, session or
tool. What a turn used belongs to the tools whose results it read, in proportion to the
length of the results; "(prompt)" is what other turns and summaries used. Costs need --price of the
process that runs the agents. Conversations that were deleted do not count.

  stevedore usage
  stevedore usage --by model --last 30d

With --by host, show what "stevedore mcp wrap", "stevedore run" and the adapters saved in coding
hosts, in characters, by host and tool ("run" is the shell): all results, what the host alone
would show of them, what it got instead, and what the model read back. Saved is the second number
without the last two; it is negative where Stevedore cost more. What hosts show of long results is
an estimate from measurements, and definitions of added tools are not counted. This is read from
--data, and counts whole days (UTC).

  stevedore usage --by host`

func newUsageCommand() *cobra.Command {
	o := new(client.Options)
	var in struct {
		By   string        `flag:"by" unit:"GROUP" default:"day" oneof:"day,model,session,tool,host" help:"GROUP: day, model, session, tool or host"`
		Last time.Duration `flag:"last" unit:"TIME" default:"168h" min:"1ns" help:"TIME before now that counts"`
	}
	cmd := client.RequestCommand(o, "usage", "Show what agents used and what it cost", agents.GetUsage, func([]string) (agents.UsageRequest, error) {
		return agents.UsageRequest{By: in.By, Last: in.Last.Seconds()}, nil
	}, func(cmd *cobra.Command, list agents.UsageList) error {
		return printUsage(cmd.OutOrStdout(), in.By, list.Used)
	})
	ofAgents := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if in.By != "host" {
			return ofAgents(cmd, args)
		}
		if err := o.Connection.CheckData(); err != nil {
			return err
		}
		sums, err := savings.Read(o.Connection.Data, time.Now().Add(-in.Last))
		if err != nil {
			return err
		}
		if o.JSON {
			return cli.JSONLines(cmd.OutOrStdout(), sums)
		}
		return printSavings(cmd.OutOrStdout(), sums)
	}
	cmd.Long = usageHelp
	o.AddFlags(cmd)
	cli.AddOptions(cmd.Flags(), &in)
	return cmd
}

func printUsage(out io.Writer, by string, used []agents.Used) error {
	table := cli.NewTable(by, "turns", "tokens in", "cached", "tokens out", "cost")
	var total agent.Total
	for _, u := range used {
		table.Row(u.Of, u.Turns, u.Input, u.CachedInput, u.Output, costText(u.Usage))
		total.Include(u.Total)
	}
	if len(used) > 1 {
		var all any = total.Turns
		if by == agents.ByTool {
			all = "" // several tools may share a turn
		}
		table.Row("total", all, total.Input, total.CachedInput, total.Output, costText(total.Usage))
	}
	return table.Print(out, "No agent used a model in this time.")
}

func printSavings(out io.Writer, sums []savings.Sum) error {
	table := cli.NewTable("host", "tool", "results", "characters", "host alone", "shown", "read back", "saved")
	var total savings.Sum
	for _, s := range sums {
		table.Row(s.Host, s.Tool, s.Results, s.Whole, s.Alone, s.Shown, s.Read, s.Saved)
		total.Add(s)
	}
	if len(sums) > 1 {
		table.Row("total", "", total.Results, total.Whole, total.Alone, total.Shown, total.Read, total.Saved)
	}
	return table.Print(out, "No result of a coding host was counted in this time.")
}

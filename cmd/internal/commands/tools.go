package commands

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

const toolsHelp = `Show the tools that the running workers offer, their queues and their arguments.

  stevedore tools ls
  stevedore tools show grep
  stevedore tools ls --json       with descriptions and schemas, as a model needs them

The effect says what happens to a call if its worker dies: keyed and idempotent tools
run again, a once-only tool does not.`

func newToolsCommand() *cobra.Command {
	o := new(client.Options)
	var queue string
	cmd := o.Group("tools", "List and show the tools that workers offer", toolsHelp, "tool")
	cmd.PersistentFlags().StringVar(&queue, "queue", "", "show only the tools of workers that consume this `QUEUE`")
	cmd.AddCommand(
		client.RequestCommand(o, "ls", "List the tools", rpc.ListOffers,
			func([]string) (tools.OfferQuery, error) { return tools.OfferQuery{Queue: queue}, nil }, printTools),
		client.RequestCommand(o, "show NAME", "Show the description, the arguments and the queues of a tool", rpc.ShowOffers,
			func(args []string) (tools.OfferQuery, error) {
				return tools.OfferQuery{Queue: queue, Tool: args[0]}, nil
			}),
	)
	o.Complete(toolNames, cmd.Commands()...)
	return cmd
}

// toolNames are the names of the tools that workers offer.
var toolNames = client.Listed(rpc.ListOffers, func(l rpc.ToolList) []rpc.ToolInfo { return l.Tools }, func(t rpc.ToolInfo) string { return t.Name })

func printTools(cmd *cobra.Command, list rpc.ToolList) error {
	columns := []string{"tool", "effect", "queues", "description"}
	return client.PrintTable(cmd.OutOrStdout(), list.Tools, "No worker offers tools.", columns, func(t rpc.ToolInfo) []any {
		queues := slices.DeleteFunc(t.Queues, func(queue string) bool { return strings.HasPrefix(queue, bus.AgentQueue+"-") }) // the queues of sub-agents
		return []any{t.Name, t.Effect, strings.Join(queues, " "), tools.Excerpt(t.Summary(), 80)}
	})
}

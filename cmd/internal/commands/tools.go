package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
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
	cmd := &cobra.Command{
		Use:     "tools",
		Aliases: []string{"tool"},
		Short:   "List and show the tools that workers offer",
		Long:    toolsHelp,
	}
	o.AddFlags(cmd)
	cmd.PersistentFlags().StringVar(&queue, "queue", "", "show only the tools of workers that consume this `QUEUE`")
	cmd.AddCommand(
		o.Command("ls", "List the tools", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
			body, err := o.Request(ctx, b, b.RPC("tools", "ls"), tools.OfferQuery{Queue: queue})
			if err != nil {
				return err
			}
			return printTools(o, cmd.OutOrStdout(), body)
		}),
		o.Command("show NAME", "Show the description, the arguments and the queues of a tool", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
			body, err := o.Request(ctx, b, b.RPC("tools", "show"), tools.OfferQuery{Queue: queue, Tool: args[0]})
			if tools.CodeOf(err) == tools.CodeNotFound {
				return cli.Exit(cli.ExitNotFound, "%w; see stevedore tools ls", err)
			}
			if err != nil {
				return err
			}
			return o.Print(cmd.OutOrStdout(), body)
		}),
	)
	o.Complete(client.ToolNames, cmd.Commands()...)
	return cmd
}

func printTools(o *client.Options, out io.Writer, body []byte) error {
	if o.JSON {
		return o.Print(out, body)
	}
	var list rpc.ToolList
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("read the list of tools: %w", err)
	}
	t := cli.NewTable("tool", "effect", "queues", "description")
	for _, tool := range list.Tools {
		queues := slices.DeleteFunc(tool.Queues, func(queue string) bool { return strings.HasPrefix(queue, bus.AgentQueue+"-") }) // the queues of sub-agents
		t.Row(tool.Name, tool.Effect, strings.Join(queues, " "), tools.Excerpt(tool.Summary(), 80))
	}
	return t.Print(out, "No worker offers tools.")
}

package main

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
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

const toolsHelp = `See which tools the workers offer that are up now, on which queues, and what
arguments they take.

  worker tools ls
  worker tools show grep
  worker tools ls --json       with descriptions and schemas, as a model needs them

The effect says what happens to a call whose worker died: keyed and idempotent
tools run again, a once tool never does.

` + cli.ExitCodesHelp

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
	cmd.PersistentFlags().StringVar(&queue, "queue", "", "only of workers that serve this `QUEUE`")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "ls",
			Short: "List the tools",
			Args:  cli.Args(cobra.NoArgs),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return o.With(cmd, func(ctx context.Context, b *bus.Bus) error {
					body, err := o.Request(ctx, b, b.RPC("tools", "ls"), tools.OfferQuery{Queue: queue})
					if err != nil {
						return err
					}
					return printTools(o, cmd.OutOrStdout(), body)
				})
			},
		},
		&cobra.Command{
			Use:   "show NAME",
			Short: "Show a tool: what it does, its arguments, who has it",
			Args:  cli.Args(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				return o.With(cmd, func(ctx context.Context, b *bus.Bus) error {
					body, err := o.Request(ctx, b, b.RPC("tools", "show"), tools.OfferQuery{Queue: queue, Tool: args[0]})
					if tools.CodeOf(err) == tools.CodeNotFound {
						return cli.Exit(cli.ExitNotFound, "%w; see worker tools ls", err)
					}
					if err != nil {
						return err
					}
					return o.Print(cmd.OutOrStdout(), body)
				})
			},
		},
	)
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
	t := cli.NewTable("tool", "effect", "queues", "what it does")
	for _, tool := range list.Tools {
		queues := slices.DeleteFunc(tool.Queues, func(queue string) bool { return strings.HasPrefix(queue, process.AgentQueue+"-") }) // of sub-agents
		t.Row(tool.Name, tool.Effect, strings.Join(queues, " "), tools.Excerpt(tool.Summary(), 80))
	}
	return t.Print(out, "No worker offers a tool.")
}

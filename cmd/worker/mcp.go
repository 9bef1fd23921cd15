package main

import (
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

const mcpHelp = `Use Stevedore with MCP hosts, such as Claude Code, Cursor and VS Code.

` + cli.ExitCodesHelp

func newMCPCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Keep the big results of MCP servers out of the prompt",
		Long:  mcpHelp,
	}
	cmd.AddCommand(newMCPWrapCommand())
	return cmd
}

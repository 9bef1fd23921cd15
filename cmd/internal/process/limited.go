package process

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

const (
	jqProcess       = "jq-process"
	sqlProcess      = "sql-process"
	markdownProcess = "markdown-process"
)

// NewLimitedCommands returns the hidden commands that a worker starts as processes of their own,
// which have little memory and time: for each jq and SQL query, and for each page of web_fetch.
func NewLimitedCommands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use: jqProcess, Short: "Run one jq query for a worker", Hidden: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return jq.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			},
		},
		{
			Use: sqlProcess, Short: "Run one SQL query for a worker", Hidden: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return tables.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			},
		},
		{
			Use: markdownProcess, Short: "Convert one page for a worker", Hidden: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return builtin.ServeMarkdown(cmd.InOrStdin(), cmd.OutOrStdout())
			},
		},
	}
}

// JQCommand returns the command line of the process of a jq query.
func JQCommand() []string { return limitedCommand(jqProcess) }

// SQLCommand returns the command line of the process of an SQL query.
func SQLCommand() []string { return limitedCommand(sqlProcess) }

// limitedCommand returns a command line of this program. It returns nil if the path of the
// program is unknown; the worker then does the work in its own process.
func limitedCommand(name string) []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, name}
}

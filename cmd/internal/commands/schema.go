package commands

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus/schema"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

const schemaHelp = `Print the contract of the bus for programs, such as code generators and validators. It
needs no server.

Without arguments, print one JSON Schema document (draft 2020-12) whose $defs are the
bodies of all events, requests and answers. With a NAME, print that schema alone.

  stevedore schema Result   what a call answers`

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schemas of the bus",
		Long:  schemaHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := schema.Document()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if doc.Defs[args[0]] == nil {
					return cli.Exit(cli.ExitUsage, "there is no schema %q; \"stevedore schema\" prints all", args[0])
				}
				doc = schema.Standalone(doc, args[0])
			}
			text, err := json.MarshalIndent(doc, "", "  ")
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			}
			return err
		},
	}
}

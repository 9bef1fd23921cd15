package commands

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/schema"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

const schemaHelp = `Print the contract of the bus for programs, such as code generators and validators. It
needs no server.

Without arguments, print one JSON Schema document (draft 2020-12) whose $defs are the
bodies of all events, requests and answers. With a NAME, print that schema alone.

--asyncapi prints an AsyncAPI 3 document instead, which also has all subjects. It describes
Stevedore: Stevedore receives what a client sends.

  stevedore schema Result                  what a call answers
  stevedore schema --asyncapi > api.json   for the tools of asyncapi.com`

func newSchemaCommand() *cobra.Command {
	var asyncAPI bool
	shared := struct {
		Prefix string `flag:"prefix" unit:"TOKEN" help:"first TOKEN of all subjects"`
	}{bus.DefaultPrefix}
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schemas and the AsyncAPI document of the bus",
		Long:  schemaHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := schemaText(asyncAPI, shared.Prefix, args)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asyncAPI, "asyncapi", false, "print an AsyncAPI 3 document with all subjects")
	cli.AddSettings(cmd.Flags(), &shared)
	return cmd
}

func schemaText(asyncAPI bool, prefix string, args []string) ([]byte, error) {
	if asyncAPI {
		if len(args) > 0 {
			return nil, cli.Exit(cli.ExitUsage, "--asyncapi prints all schemas; remove %q", args[0])
		}
		subjects, err := bus.NewSubjects(prefix)
		if err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--prefix: %w", err)
		}
		return schema.AsyncAPI(subjects, cli.ReadVersion().Version)
	}
	doc, err := schema.Document()
	if err != nil {
		return nil, err
	}
	if len(args) > 0 {
		if doc.Defs[args[0]] == nil {
			return nil, cli.Exit(cli.ExitUsage, "there is no schema %q; \"stevedore schema\" prints all", args[0])
		}
		doc = schema.Standalone(doc, args[0])
	}
	return json.MarshalIndent(doc, "", "  ")
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

const artifactsHelp = `List, read and search what workers offloaded. All of it, but sweep, is asked of a
running worker, over the bus, so it works from anywhere; a session sees its own
artifacts only.

  worker artifacts ls --session s1
  worker artifacts get ID                  the first 15,000 characters
  worker artifacts get ID --all > file     everything
  worker artifacts lines ID 100 120
  worker artifacts grep ID 'error|warn' -C 2
  worker artifacts jq ID '.items | length'
  worker artifacts sweep                   remove what expired

` + cli.ExitCodesHelp

func newArtifactsCommand() *cobra.Command {
	o := new(asking)
	cmd := &cobra.Command{
		Use:     "artifacts",
		Aliases: []string{"artifact"},
		Short:   "List, read and search offloaded results",
		Long:    artifactsHelp,
	}
	o.addFlags(cmd, "artifacts")
	cmd.AddCommand(
		newArtifactsLs(o), newArtifactsGet(o), newArtifactsLines(o), newArtifactsGrep(o),
		reading(o, "info ID", "Show the record of an artifact", 1, "record", func(args []string) (any, error) {
			return rpc.ReadRequest{ArtifactID: args[0]}, nil
		}),
		reading(o, "jq ID QUERY", "Query a JSON artifact with jq's language", 2, "jq", func(args []string) (any, error) {
			return rpc.ReadRequest{ArtifactID: args[0], Query: args[1]}, nil
		}),
		newArtifactsRm(o),
		newArtifactsSweep(o),
	)
	return cmd
}

func reading(o *asking, use, short string, args int, function string, request func(args []string) (any, error)) *cobra.Command {
	return o.command(use, short, args, "artifact", function, request)
}

func newArtifactsLs(o *asking) *cobra.Command {
	var filter []string
	cmd := reading(o, "ls", "List the artifacts of the session", 0, "query", func([]string) (any, error) {
		in := rpc.ReadRequest{Filter: map[string]string{}}
		for _, f := range filter {
			name, value, ok := strings.Cut(f, "=")
			if !ok {
				return nil, fmt.Errorf("--filter %q: want NAME=VALUE", f)
			}
			in.Filter[name] = value
		}
		return in, nil
	})
	cmd.Flags().StringArrayVar(&filter, "filter", nil, "`NAME=VALUE` of metadata that must be equal, such as tool_name=shell")
	return cmd
}

func newArtifactsRm(o *asking) *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID",
		Short: "Remove an artifact",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, b *bus.Bus) error {
				body, err := o.ask(ctx, b, "artifact", "rm", rpc.ReadRequest{ArtifactID: args[0]})
				if err != nil {
					return err
				}
				if o.json {
					return o.print(cmd.OutOrStdout(), body)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", cli.OneLine(args[0]))
				return err
			})
		},
	}
}

func newArtifactsLines(o *asking) *cobra.Command {
	return reading(o, "lines ID START END", "Print lines, from 1, inclusive", 3, "lines", func(args []string) (any, error) {
		start, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("START %q is not a number", args[1])
		}
		end, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("END %q is not a number", args[2])
		}
		return rpc.ReadRequest{ArtifactID: args[0], StartLine: start, EndLine: end}, nil
	})
}

func newArtifactsGrep(o *asking) *cobra.Command {
	var in rpc.ReadRequest
	var around int
	cmd := reading(o, "grep ID PATTERN", "Print the lines that match a regular expression (RE2)", 2, "grep", func(args []string) (any, error) {
		in.ArtifactID, in.Pattern = args[0], args[1]
		in.ContextBefore, in.ContextAfter = max(in.ContextBefore, around), max(in.ContextAfter, around)
		return in, nil
	})
	cmd.Flags().BoolVarP(&in.IgnoreCase, "ignore-case", "i", false, "ignore case")
	cmd.Flags().IntVarP(&in.ContextBefore, "before-context", "B", 0, "`LINES` to show before each match")
	cmd.Flags().IntVarP(&in.ContextAfter, "after-context", "A", 0, "`LINES` to show after each match")
	cmd.Flags().IntVarP(&around, "context-lines", "C", 0, "`LINES` to show around each match")
	cmd.Flags().IntVarP(&in.MaxResults, "max-results", "m", 100, "`NUMBER` of matches to show")
	return cmd
}

func newArtifactsGet(o *asking) *cobra.Command {
	var in rpc.ReadRequest
	var all bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print an artifact, or a page of it",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.ArtifactID = args[0]
			return o.with(cmd, func(ctx context.Context, b *bus.Bus) error {
				if all {
					return copyAll(ctx, &pageReader{o, b, in.ArtifactID}, in.Offset, cmd.OutOrStdout())
				}
				body, err := o.ask(ctx, b, "artifact", "get", in)
				if err != nil {
					return err
				}
				return o.print(cmd.OutOrStdout(), body)
			})
		},
	}
	cmd.Flags().Int64Var(&in.Offset, "offset", 0, "first `CHARACTER` to print, from 0")
	cmd.Flags().Int64Var(&in.Limit, "limit", 0, "`NUMBER` of characters to print, at most 15,000")
	cmd.Flags().BoolVar(&all, "all", false, "print everything from the offset on, byte by byte as it was stored")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	return cmd
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/offload"
)

const artifactsHelp = `List, read and search artifacts: the results that workers offloaded. A running worker
answers all commands except sweep over the bus, so they work on any host. Each session
has its own artifacts.

  stevedore artifacts ls --session s1         or --all
  stevedore artifacts get ID                  print the first 15,000 characters
  stevedore artifacts get ID --all -o FILE    save the whole artifact, exactly as it was stored
  stevedore artifacts lines ID 100 120
  stevedore artifacts info ID
  stevedore artifacts grep ID 'error|warn' -C 2
  stevedore artifacts jq ID '.items | length'
  stevedore artifacts sql 'SELECT city, count(*) FROM t1 GROUP BY city' ID
  stevedore artifacts rm ID
  stevedore artifacts sweep                   remove expired artifacts`

func newArtifactsCommand() *cobra.Command {
	o := new(client.Options)
	cmd := o.Group("artifacts", "List, read and search offloaded results", artifactsHelp, "artifact")
	o.AddSessionFlag(cmd, "artifacts")
	byID := func(args []string) (rpc.ArtifactRequest, error) { return rpc.ArtifactRequest{ArtifactID: args[0]}, nil }
	cmd.AddCommand(
		newArtifactsLs(o), newArtifactsGet(o), newArtifactsLines(o), newArtifactsGrep(o),
		client.RequestCommand(o, "info ID", "Show the record of an artifact", rpc.ArtifactRecord, byID),
		newArtifactsJQ(o), newArtifactsSQL(o),
		client.RequestCommand(o, "rm ID", "Remove an artifact", rpc.RemoveArtifact, byID, func(cmd *cobra.Command, rec offload.Record) error {
			return cli.Line(cmd.OutOrStdout(), "removed %s", rec.ID)
		}),
		newArtifactsSweep(o),
	)
	o.Complete(client.Listed(rpc.QueryArtifacts, func(l *offload.Listing) []offload.ListedArtifact { return l.Artifacts },
		func(a offload.ListedArtifact) string { return a.ID }), cmd.Commands()...)
	return cmd
}

func newArtifactsLs(o *client.Options) *cobra.Command {
	var (
		filter        []string
		limit, offset int
		all           bool
	)
	cmd := o.Command("ls", "List the artifacts of the session", func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, _ []string) error {
		in, op := rpc.ReadRequest{Filter: map[string]string{}, Limit: int64(limit), Offset: int64(offset)}, rpc.QueryArtifacts
		for _, f := range filter {
			name, value, ok := strings.Cut(f, "=")
			if !ok {
				return cli.Exit(cli.ExitUsage, "--filter %q: want NAME=VALUE", f)
			}
			in.Filter[name] = value
		}
		if all && cmd.Flags().Changed("session") {
			return cli.Exit(cli.ExitUsage, "--all lists those of all sessions: leave out --session")
		}
		if all {
			op = rpc.ListAllArtifacts
		}
		answer, err := client.Ask(ctx, o, b, op, in)
		if err != nil {
			return err
		}
		return answer.Print(o, cmd, func(cmd *cobra.Command, l *offload.Listing) error {
			return printArtifacts(o, cmd.OutOrStdout(), l, all)
		})
	})
	cmd.Flags().BoolVar(&all, "all", false, "list those of all sessions")
	cmd.Flags().StringArrayVar(&filter, "filter", nil, "show only artifacts with this `NAME=VALUE` in their metadata, such as tool_name=shell")
	cmd.MarkFlagsMutuallyExclusive("all", "filter")
	addPage(cmd, &limit, "the newest; default and most 200")
	cmd.Flags().IntVar(&offset, "offset", 0, "leave out the newest `NUMBER`")
	return cmd
}

func newArtifactsLines(o *client.Options) *cobra.Command {
	return client.RequestCommand(o, "lines ID START END", "Print the lines START to END; the first line is 1", rpc.ArtifactLines,
		func(args []string) (rpc.ReadRequest, error) {
			start, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return rpc.ReadRequest{}, fmt.Errorf("START %q is not a number", args[1])
			}
			end, err := strconv.ParseInt(args[2], 10, 64)
			if err != nil {
				return rpc.ReadRequest{}, fmt.Errorf("END %q is not a number", args[2])
			}
			return rpc.ReadRequest{ArtifactID: args[0], StartLine: start, EndLine: end}, nil
		})
}

func newArtifactsGrep(o *client.Options) *cobra.Command {
	var in rpc.ReadRequest
	var around int
	cmd := client.RequestCommand(o, "grep ID PATTERN", "Print the lines that match a regular expression (RE2)", rpc.GrepArtifact,
		func(args []string) (rpc.ReadRequest, error) {
			in.ArtifactID, in.Pattern = args[0], args[1]
			in.ContextBefore, in.ContextAfter = max(in.ContextBefore, around), max(in.ContextAfter, around)
			return in, nil
		})
	cmd.Flags().BoolVarP(&in.IgnoreCase, "ignore-case", "i", false, "ignore case")
	cmd.Flags().IntVarP(&in.ContextBefore, "before-context", "B", 0, "`LINES` to show before each match")
	cmd.Flags().IntVarP(&in.ContextAfter, "after-context", "A", 0, "`LINES` to show after each match")
	cmd.Flags().IntVarP(&around, "context-lines", "C", 0, "`LINES` to show around each match")
	cmd.Flags().IntVarP(&in.MaxResults, "max-results", "m", 100, "`NUMBER` of matches to show")
	addCursorFlag(cmd, &in)
	return cmd
}

func newArtifactsJQ(o *client.Options) *cobra.Command {
	var in rpc.ReadRequest
	cmd := client.RequestCommand(o, "jq ID QUERY", "Run a jq query on JSON, YAML, XML, NDJSON, CSV or TSV", rpc.JQArtifact, func(args []string) (rpc.ReadRequest, error) {
		in.ArtifactID, in.Query = args[0], args[1]
		return in, nil
	})
	addCursorFlag(cmd, &in)
	return cmd
}

func newArtifactsSQL(o *client.Options) *cobra.Command {
	var in rpc.ReadRequest
	cmd := client.RequestCommand(o, "sql QUERY [ID...]", "Run a SELECT on tables; the query calls them t1, t2, ...", rpc.SQLArtifacts,
		func(args []string) (rpc.ReadRequest, error) {
			in.SQL, in.Artifacts = args[0], args[1:]
			return in, nil
		})
	cmd.Flags().StringVar(&in.Path, "path", "", "`PATH` of the table in one JSON artifact, such as .runs[0].results")
	cmd.Flags().BoolFunc("header", "the first row of a text has the names of the columns, or not (--header=false), if the answer assumes it wrongly",
		func(text string) error {
			header, err := strconv.ParseBool(text)
			in.Header = &header
			return err
		})
	cmd.Flags().StringVar(&in.Delimiter, "delimiter", "", "`CHARACTER` between the cells of a text, if the answer assumes another one")
	addCursorFlag(cmd, &in)
	return cmd
}

// addCursorFlag adds the flag that continues an answer.
func addCursorFlag(cmd *cobra.Command, in *rpc.ReadRequest) {
	cmd.Flags().StringVar(&in.Cursor, "cursor", "", "`CURSOR` that an answer gave, to continue it")
}

func newArtifactsGet(o *client.Options) *cobra.Command {
	var in rpc.ReadRequest
	var all bool
	var file string
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print an artifact, or a page of it",
		RunE: func(cmd *cobra.Command, args []string) error {
			in.ArtifactID = args[0]
			if file != "" && (!all || in.Offset != 0) {
				return cli.Exit(cli.ExitUsage, "--output saves a whole artifact: use it with --all and without --offset")
			}
			return o.With(cmd, func(ctx context.Context, b *bus.Bus) error {
				if all {
					return downloadArtifact(ctx, o, b, in, file, cmd)
				}
				answer, err := client.Ask(ctx, o, b, rpc.GetArtifact, in)
				if err != nil {
					return err
				}
				return answer.Print(o, cmd)
			})
		},
	}
	cmd.Flags().Int64Var(&in.Offset, "offset", 0, "first `CHARACTER` to print, from 0")
	cmd.Flags().Int64Var(&in.Limit, "limit", 0, "`NUMBER` of characters to print, at most 15,000")
	cmd.Flags().BoolVar(&all, "all", false, "print everything from the offset on, exactly as it was stored")
	cmd.Flags().StringVarP(&file, "output", "o", "", "with --all, save to `FILE` when everything has arrived and its digest is right; - is the standard output")
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	return cmd
}

// newArtifactsSweep returns "stevedore artifacts sweep", which opens the store itself: an
// operator can use it while no worker is running.
func newArtifactsSweep(o *client.Options) *cobra.Command {
	var store process.StoreOptions
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove expired artifacts and leftovers of interrupted writes",
		Long: `Remove expired artifacts, contents that no artifact uses, and leftovers of interrupted
writes, in all sessions. Workers do this every 15 to 30 minutes. Use the command to sweep
immediately, or to sweep a store that no worker uses.

The command opens the store directly, so --store and --artifact-ttl must be those of the
workers. It leaves files that are younger than --grace, because an upload may still be
writing them: --grace must be longer than any upload takes.`,
		Example: `  stevedore artifacts sweep
  stevedore artifacts sweep --store disk:/var/lib/stevedore/artifacts --grace 10m`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace < 0 {
				return cli.Exit(cli.ExitUsage, "--grace is %s; it must not be negative", grace)
			}
			dir, onDisk := store.Dir(&o.Connection)
			if !onDisk {
				return o.With(cmd, func(_ context.Context, b *bus.Bus) error {
					return sweepOnce(cmd, o, &store, b, grace)
				})
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) { // Open would create the directory of a mistyped name
				return cli.Exit(cli.ExitNotFound, "--store %s: there is no directory %q; name the store of the workers", store.Spec, dir)
			}
			return sweepOnce(cmd, o, &store, nil, grace)
		},
	}
	cli.AddSettings(cmd.Flags(), &store)
	cmd.Flags().Lookup("artifact-quota").Hidden = true // a sweep has no use for it
	cmd.Flags().DurationVar(&grace, "grace", process.SweepGrace, "minimum age of the files to remove, as `TIME` since their last change")
	return cmd
}

// sweepOnce sweeps the store. b may be nil for a store on disk.
func sweepOnce(cmd *cobra.Command, o *client.Options, options *process.StoreOptions, b *bus.Bus, grace time.Duration) (err error) {
	store, closeStore, err := options.Open(cmd.Context(), &o.Connection, b, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	progress := cli.StartProgress(cmd.ErrOrStderr(), "Sweeping the store", -1)
	r, err := store.Sweep(cmd.Context(), grace)
	progress.Stop()
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.JSON(cmd.OutOrStdout(), r)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Removed %d expired record(s), %d content(s) and %d leftover(s) of interrupted writes, %d bytes in all\n",
		r.Records, r.Blobs, r.Orphans, r.Bytes)
	return err
}

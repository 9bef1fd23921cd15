package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
)

// newArtifactsSweep returns `worker artifacts sweep`. Other than its siblings it
// opens the store itself: it is for operators, and works while no worker does.
func newArtifactsSweep(o *asking) *cobra.Command {
	var store processOptions
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove what expired, and what interrupted writes left",
		Long: `Remove expired artifacts, contents that no artifact names, and what interrupted
writes left; of all sessions. Workers do the same every 15 to 30 minutes, so this is
for impatience, for stores that no worker serves, and before a disk store is copied
by what leaves extended attributes behind.

The store is opened directly: --store and --artifact-ttl must be those of the
workers. What is younger than --grace is left alone, because it may be under way:
--grace must be longer than any upload takes.`,
		Example: `  worker artifacts sweep
  worker artifacts sweep --store disk:/var/lib/stevedore/artifacts --grace 10m`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace < 0 {
				return cli.Exit(cli.ExitUsage, "--grace is %s; it can not be negative", grace)
			}
			store.connection = o.connection
			if where, onDisk := strings.CutPrefix(store.store, "disk:"); onDisk {
				// A worker would make it; to sweep what is not there is a typo.
				if dir := store.diskDir(where); isMissing(dir) {
					return cli.Exit(cli.ExitNotFound, "--store %s: there is no directory %q; it must be that of the workers", store.store, dir)
				}
				return sweepOnce(cmd, &store, nil, grace, o.json)
			}
			return o.with(cmd, func(_ context.Context, b *bus.Bus) error {
				return sweepOnce(cmd, &store, b, grace, o.json)
			})
		},
	}
	store.addStoreFlags(cmd.Flags())
	cmd.Flags().DurationVar(&grace, "grace", sweepGrace, "`TIME` since its last change for which nothing is touched")
	return cmd
}

func isMissing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// sweepOnce needs no bus for a store on disk.
func sweepOnce(cmd *cobra.Command, o *processOptions, b *bus.Bus, grace time.Duration, asJSON bool) (err error) {
	store, closeStore, err := o.openStore(cmd.Context(), b)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := closeStore(); err == nil {
			err = closeErr
		}
	}()
	report, err := store.Sweep(cmd.Context(), grace)
	if err != nil {
		return err
	}
	return printSweep(cmd, report, asJSON)
}

func printSweep(cmd *cobra.Command, r offload.SweepReport, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Removed %d expired record(s), %d content(s) and %d leftover(s) of interrupted writes, %d bytes in all\n",
		r.Records, r.Blobs, r.Orphans, r.Bytes)
	return err
}

package commands

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
)

const backupHelp = `Save all streams and buckets with their consumers into a new directory: calls, results,
conversations, schedules, notifications, dead letters, and the artifacts of the store
"object". The files are those of "nats backup stream". The streams are saved one after
the other, so stop the workers before. If workers run during the backup, a call that ends
in that time may run again after "stevedore restore", and a call that is parked or continued
in that time may be missing.

Artifacts in another store (--store disk:DIR or object:BUCKET) are not in the backup: copy
that directory or bucket, too. To save "stevedore up", stop it and copy its data directory.

  stevedore backup /backup/monday --server nats://nats.example:4222
  stevedore restore /backup/monday --server nats://new.example:4222`

func newBackupCommand() *cobra.Command {
	return copyCommand("backup DIR", "Save all streams and buckets of a NATS server into a directory", backupHelp, "Saving",
		admin.Backup, process.StateFile, process.DiskStore)
}

const restoreHelp = `Create the streams and buckets of a backup with their messages and consumers, on a server
without them. Then start the workers: they run the calls that waited. The command checks
the backup first; if a stream exists, or a part of the backup is missing, it changes
nothing. It moves what an earlier version stored to the formats of this version. --replicas sets another number of replicas than before.

  stevedore restore /backup/monday --server nats://new.example:4222 --replicas 3`

func newRestoreCommand() *cobra.Command {
	return copyCommand("restore DIR", "Create the streams and buckets of a backup on a NATS server", restoreHelp, "Restoring", admin.Restore)
}

// copyCommand returns a command that copies the streams. Beside are files of the data directory of an embedded
// server that belong to a copy and are not in it.
func copyCommand(use, short, long, doing string, do func(ctx context.Context, b *bus.Bus, dir string,
	show func(string)) ([]admin.SavedStream, error), beside ...string) *cobra.Command {
	o := new(client.Options)
	o.Connection.AnyFormat = true // restore moves what an earlier version stored
	cmd := o.Command(use, short, func(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) error {
		var progress *cli.Progress
		streams, err := do(ctx, b, args[0], func(stream string) {
			progress.Stop()
			progress = cli.StartProgress(cmd.ErrOrStderr(), doing+" "+stream, -1)
		})
		progress.Stop()
		if err != nil {
			return err
		}
		for _, name := range beside {
			if o.Connection.External() {
				break
			}
			dir, _, err := o.Connection.ServerDir()
			if err != nil {
				return err
			}
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); err == nil {
				_ = cli.Line(cmd.ErrOrStderr(), "stevedore: %s is not in the backup; copy it, too", file)
			}
		}
		return client.PrintList(o.JSON, cmd.OutOrStdout(), streams, "", []string{"stream", "messages", "bytes"},
			func(s admin.SavedStream) []any { return []any{s.Stream, s.Messages, s.Bytes} })
	})
	cmd.Long = long
	o.AddFlags(cmd)
	return cmd
}

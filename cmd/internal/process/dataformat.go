package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// dataFormat is the format of the data directory: the files of JetStream, the
// credential, and the state file.
var dataFormat = durable.Format{Name: "data directory", Version: 1}

// CheckData returns an error if a data directory has another format. It refuses streams without a
// format version: a mark would claim that this version can read them. marked is false if the
// directory is new.
func CheckData(dir string) (marked bool, err error) {
	marked, err = dataFormat.Check(dir)
	if err != nil || marked {
		return marked, err
	}
	if _, err := os.Lstat(filepath.Join(dir, "jetstream")); err == nil {
		return false, &durable.FormatError{Dir: dir,
			Problem: fmt.Sprintf("has streams but no format version: the file %s was lost, or an unreleased version of Stevedore wrote the "+
				"directory", durable.FormatFile),
			Advice: "use another directory, or restore the file from a backup; " + dataFormat.Repair()}
	}
	return false, nil
}

// openData checks the format of a data directory, which the caller has locked, and marks a new one.
func openData(dir string) error {
	marked, err := CheckData(dir)
	if err != nil || marked {
		return err
	}
	return dataFormat.Mark(dir)
}

// moveData moves the streams of a data directory, whose server runs, to the formats of this version.
// It copies those that change into before-upgrade in the directory.
func moveData(ctx context.Context, b *bus.Bus, dir string, log zerolog.Logger) error {
	copies := filepath.Join(dir, "before-upgrade")
	_, err := admin.Move(ctx, b, copies, func(s admin.Step) {
		log.Info().Stringer("step", s).Str("copies", copies).Msg("moving what an earlier version stored")
	})
	return err
}

package process

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// dataFormat is the format of the data directory: the files of JetStream, the
// credential, and the state file. A later version adds its upgrade here.
var dataFormat = durable.Format{Name: "data directory", Version: 1}

// formerDir is the directory in the data directory to which openData moves what an
// unreleased version wrote. It stays in the data directory because that may be a mount
// point.
const formerDir = "before-format-1"

// formerFiles are the names that unreleased versions, which stored no format version,
// used in the data directory.
var formerFiles = []string{"jetstream", "credential", "server.url", "state.json", "state.json.lock", "artifacts"}

// openData checks the format of a data directory, which the caller has locked, and marks
// a new one. It moves the content that an unreleased version wrote aside. If the process
// dies meanwhile, the next start moves the rest.
func openData(dir string, log zerolog.Logger) error {
	marked, err := dataFormat.Check(dir)
	if err != nil || marked {
		return err
	}
	if stream, err := formattedStream(dir); err != nil || stream != "" {
		return cmp.Or(err, error(&durable.FormatError{Dir: dir,
			Problem: fmt.Sprintf("has lost its format version: the file %s is missing, although the stream %s has one", durable.FormatFile, stream),
			Advice:  "restore the file from a backup; " + dataFormat.Repair()}))
	}
	moved, err := moveFormer(dir)
	if err != nil {
		return fmt.Errorf("move the files of an unreleased version of Stevedore aside: %w", err)
	}
	if moved != "" {
		log.Warn().Str("moved_to", moved).Int("version", dataFormat.Version).
			Msg("an unreleased version of Stevedore, which stored no format version, wrote this data directory; its files were moved aside and are complete; this start begins with an empty directory; to finish the work in the moved files, start that version with --data on their directory; remove them if you do not need them")
	}
	return dataFormat.Mark(dir)
}

// formattedStream returns the name of a stream in a data directory that has a format
// version, or "" if there is none. Unreleased versions stored none.
func formattedStream(dir string) (string, error) {
	data := os.DirFS(dir)
	names, err := fs.Glob(data, "jetstream/*/streams/*/meta.inf")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := fs.ReadFile(data, name)
		if err != nil {
			return "", err
		}
		if bytes.Contains(text, []byte(jsapi.FormatKey)) {
			return path.Base(path.Dir(name)), nil
		}
	}
	return "", nil
}

// moveFormer returns the directory to which it moved files, or "" if there are none.
func moveFormer(dir string) (moved string, err error) {
	to := filepath.Join(dir, formerDir)
	_, begun := os.Lstat(to)
	if begun != nil { // otherwise an earlier start was interrupted
		for _, name := range []string{"jetstream", "credential"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				return "", nil
			} else if err != nil {
				return "", err
			}
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	d := durable.Dir{Root: root}
	if err := d.MkdirAll(formerDir, 0o700); err != nil {
		return "", err
	}
	for _, name := range formerFiles {
		if name == "artifacts" { // another command may have created a store of this version
			if _, err := root.Lstat(filepath.Join(name, durable.FormatFile)); err == nil {
				continue
			}
		}
		if _, err := root.Lstat(filepath.Join(formerDir, name)); err == nil {
			if _, err := root.Lstat(name); err == nil {
				return "", fmt.Errorf("%q exists in %q and in %q; rename one of the two directories", name, dir, to)
			}
			continue
		}
		if err := root.Rename(name, filepath.Join(formerDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return to, errors.Join(d.Sync(formerDir), d.Sync("."))
}

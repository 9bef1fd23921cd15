package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FormatFile is the file in a directory that contains the version of its format:
//
//	{"format":"data directory","version":1}
const FormatFile = "stevedore.format"

// Format is the format of the files in a directory.
type Format struct {
	// Name says what the directory is, in the file and in errors.
	Name string
	// Version is the version that this program reads and writes. The first is 1.
	Version int
	// Upgrades[i] changes a directory from version i+1 to version i+2. It may run
	// again if the process died before. No other process uses the directory meanwhile:
	// the caller of Check holds its lock.
	Upgrades []func(dir string) error
}

// formatMark is the content of FormatFile.
type formatMark struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// FormatError means that a directory has a format that this program does not read.
// Nothing in the directory was changed.
type FormatError struct{ Dir, Problem, Advice string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("the directory %q %s; %s", e.Dir, e.Problem, e.Advice)
}

// Check reports whether dir has this format. It upgrades a directory of an earlier
// version. If dir does not exist or no version is stored, marked is false: the directory
// is new, or an unreleased version of Stevedore wrote it. The error is a *FormatError if
// the stored version is unknown or damaged.
func (f Format) Check(dir string) (marked bool, err error) {
	have, marked, err := f.read(dir)
	if err != nil || !marked {
		return marked, err
	}
	for ; have < f.Version; have++ {
		if err := f.Upgrades[have-1](dir); err != nil {
			return true, fmt.Errorf("upgrade the %s %q from version %d to %d: %w", f.Name, dir, have, have+1, err)
		}
		if err := f.mark(dir, have+1); err != nil {
			return true, err
		}
	}
	return true, nil
}

func (f Format) read(dir string) (version int, marked bool, err error) {
	file, err := os.Open(filepath.Join(dir, FormatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the format of the %s: %w", f.Name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 1<<10))
	if err != nil {
		return 0, false, fmt.Errorf("read the format of the %s: %w", f.Name, err)
	}
	var have formatMark
	reads := fmt.Sprintf("this program reads version %d of the format %q", f.Version, f.Name)
	switch err := json.Unmarshal(data, &have); {
	case err != nil || have.Version < 1 || have.Format == "":
		return 0, false, &FormatError{dir, fmt.Sprintf("has a damaged format version: its file %s contains %q", FormatFile, bytes.TrimSpace(data)),
			reads + "; restore the file from a backup; " + f.Repair() + "; or use another directory"}
	case have.Format != f.Name:
		return 0, false, &FormatError{dir, fmt.Sprintf("has the format %q, version %d", have.Format, have.Version), reads + "; use another directory"}
	case have.Version > f.Version:
		return 0, false, &FormatError{dir, fmt.Sprintf("has version %d of the format %q", have.Version, f.Name),
			reads + "; start the version of Stevedore that wrote it, or a later one, or use another directory"}
	}
	return have.Version, true, nil
}

// Repair says how to restore a lost version.
func (f Format) Repair() string {
	text, _ := json.Marshal(formatMark{f.Name, f.Version}) // cannot fail
	return fmt.Sprintf("if you are certain that this version of Stevedore wrote the directory, write %s into %s", text, FormatFile)
}

// Mark stores the version in dir, which exists. Call it before the first file of the
// format is written, so that a crash leaves no files without a version.
func (f Format) Mark(dir string) error { return f.mark(dir, f.Version) }

func (f Format) mark(dir string, version int) error {
	data, err := json.Marshal(formatMark{f.Name, version})
	if err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, FormatFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store the format of the %s: %w", f.Name, err)
	}
	return nil
}

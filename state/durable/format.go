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

// Check reports whether dir has this format. If dir does not exist or no version is stored,
// marked is false: the directory is new, or an unreleased version of Stevedore wrote it. The
// error is a *FormatError if the stored version is another one or damaged.
func (f Format) Check(dir string) (marked bool, err error) {
	file, err := os.Open(filepath.Join(dir, FormatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the format of the %s: %w", f.Name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 1<<10))
	if err != nil {
		return false, fmt.Errorf("read the format of the %s: %w", f.Name, err)
	}
	var have formatMark
	reads := fmt.Sprintf("this program reads version %d of the format %q", f.Version, f.Name)
	switch err := json.Unmarshal(data, &have); {
	case err != nil || have.Version < 1 || have.Format == "":
		return false, &FormatError{dir, fmt.Sprintf("has a damaged format version: its file %s contains %q", FormatFile, bytes.TrimSpace(data)),
			reads + "; restore the file from a backup; " + f.Repair() + "; or use another directory"}
	case have.Format != f.Name:
		return false, &FormatError{dir, fmt.Sprintf("has the format %q, version %d", have.Format, have.Version), reads + "; use another directory"}
	case have.Version != f.Version:
		return false, &FormatError{dir, fmt.Sprintf("has version %d of the format %q", have.Version, f.Name),
			reads + "; start the version of Stevedore that wrote it, or use another directory"}
	}
	return true, nil
}

// Repair says how to restore a lost version.
func (f Format) Repair() string {
	text, _ := json.Marshal(formatMark{f.Name, f.Version}) // cannot fail
	return fmt.Sprintf("if you are certain that this version of Stevedore wrote the directory, write %s into %s", text, FormatFile)
}

// Mark stores the version in dir, which exists. Call it before the first file of the
// format is written, so that a crash leaves no files without a version.
func (f Format) Mark(dir string) error {
	data, err := json.Marshal(formatMark{f.Name, f.Version})
	if err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, FormatFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store the format of the %s: %w", f.Name, err)
	}
	return nil
}

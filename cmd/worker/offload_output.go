package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/offload/chat"
)

// The outputs of `worker offload`. Their names are those of the JavaScript
// modules that the commands stand in for.
type messageOutput struct {
	Message    chat.Message `json:"message"`
	FreedChars int          `json:"freedChars"`
	File       jsString     `json:"file"`
	Files      []jsString   `json:"files,omitzero"`
	Writes     dryRun       `json:"writes,omitzero"`
}

type historyOutput struct {
	Messages       []chat.Message `json:"messages"`
	OffloadedCount int            `json:"offloadedCount"`
	FreedChars     int            `json:"freedChars"`
	Files          []jsString     `json:"files"`
	Writes         dryRun         `json:"writes,omitzero"`
}

// jsString is printed as JavaScript prints it; encoding/json escapes more.
type jsString string

func (s jsString) MarshalJSON() ([]byte, error) { return []byte(chat.Quote(string(s))), nil }

func jsStrings(ss []string) []jsString {
	all := make([]jsString, len(ss))
	for i, s := range ss {
		all[i] = jsString(s)
	}
	return all
}

// dryRun is the writer of a dry run: it notes what would be written and does
// not look at the disk.
type dryRun []dryRunWrite

type dryRunWrite struct {
	Path    jsString `json:"path"`
	Content jsString `json:"content"`
}

func (r *dryRun) WriteFile(_ context.Context, path, content string) error {
	*r = append(*r, dryRunWrite{jsString(path), jsString(content)})
	return nil
}

// CreateFile never finds a name taken: within a run the names are distinct.
func (r *dryRun) CreateFile(ctx context.Context, path, content string) error {
	return r.WriteFile(ctx, path, content)
}

// printOffload prints v in one write, so that a failure leaves nothing half.
func printOffload(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

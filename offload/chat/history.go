package chat

import (
	"context"
	"fmt"
	"path/filepath"
)

// HistoryResult is a light history and what became of the heavy one.
type HistoryResult struct {
	// Messages are equal to those that went in where nothing was offloaded.
	Messages []Message
	// OffloadedCount is how many tool results were offloaded.
	OffloadedCount int
	// FreedChars is the sum of their lengths, in UTF-16 code units.
	FreedChars int
	// Files has their files, in the order of the results.
	Files []string
}

// OffloadHistory moves each tool_result of at least opts.MinChars, from the
// oldest message on, to <dir>/tool-result-<tool_use_id>.md, and puts a reference
// relative to dir in its place. A string is written as it is, anything else as
// JSON indented by two spaces. All other fields, blocks and messages stay.
//
// No file is ever replaced: a name that is taken, by this history or on disk by
// another content, gets the next of -1, -2, ..., which is never the name of
// another id of the history. References are left as they are, so a light history
// can be offloaded again as it grows.
//
// After an error the result is empty. Files that were written before the error
// stay; running again finds them.
func OffloadHistory(ctx context.Context, messages []Message, dir string, opts Options) (HistoryResult, error) {
	return inFolder(dir, func(f *folder) (HistoryResult, error) {
		return OffloadHistoryTo(ctx, messages, f.dir, opts, f)
	})
}

// OffloadHistoryTo is OffloadHistory with a writer of the caller's. The paths are
// dir, as it was given, and the names below it.
func OffloadHistoryTo(ctx context.Context, messages []Message, dir string, opts Options, w FileCreator) (HistoryResult, error) {
	if err := opts.Validate(); err != nil {
		return HistoryResult{}, fmt.Errorf("offload history: %w", err)
	}
	res := HistoryResult{Messages: make([]Message, 0, len(messages)), Files: []string{}}
	if opts.belowRatio(messages) {
		res.Messages = append(res.Messages, messages...)
		return res, nil
	}
	names := newClaims(w, dir, resultPrefix)
	for _, m := range messages {
		for b := range m.results() {
			names.reserve(b)
		}
	}
	for i, m := range messages {
		var parts []replacement
		for b := range m.results() {
			if !opts.takes(b) {
				continue
			}
			path, err := names.create(ctx, b.id, historyFile(b.value))
			if err != nil {
				return HistoryResult{}, fmt.Errorf("offload history: message %d, result %q: %w", i, b.id, err)
			}
			parts = append(parts, replacement{b.at, "[Content offloaded to: ./" + filepath.Base(path) + "]"})
			res.OffloadedCount++
			res.FreedChars += contentLength(b.value)
			res.Files = append(res.Files, path)
		}
		res.Messages = append(res.Messages, m.replace(parts))
	}
	return res, nil
}

// historyFile is what the file of a content holds.
func historyFile(value string) string {
	if kindOf(value) == "a string" {
		return unquote(value)
	}
	return indent(value)
}

// takes reports whether a result is to be offloaded.
func (o Options) takes(b block) bool {
	return b.movable() && contentLength(b.value) >= o.minChars()
}

// belowRatio reports whether too little of the history could be offloaded to be
// worth it.
func (o Options) belowRatio(messages []Message) bool {
	ratio := o.minRatio()
	if ratio <= 0 {
		return false
	}
	offloadable, total := 0, 0
	for _, m := range messages {
		if content := m.contentText(); kindOf(content) == "a string" {
			total += contentLength(content)
		}
		for b := range m.blocks() {
			total += b.weight()
			if b.result && o.takes(b) {
				offloadable += contentLength(b.value)
			}
		}
	}
	// Dividing is exact where it matters: 20/100 is the number 0.2, while
	// 0.2*total is not always a whole number.
	return total == 0 || float64(offloadable)/float64(total) < ratio
}

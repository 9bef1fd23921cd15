package chat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// ErrFormat means that a history has a format that the package does not understand.
var ErrFormat = errors.New("unknown format")

// HistoryResult is an offloaded history.
type HistoryResult struct {
	// Messages are the messages. Those without an offloaded result are unchanged.
	Messages []Message
	// OffloadedCount is the number of offloaded tool results.
	OffloadedCount int
	// FreedChars is the sum of their lengths, in UTF-16 code units.
	FreedChars int
	// Files are their files, in the order of the results.
	Files []string
}

// OffloadHistory moves each tool result of at least opts.MinChars, starting at the oldest message,
// to <dir>/tool-result-<id>.md, and puts a reference relative to dir in its place. It writes a
// string unchanged, any other content as JSON indented by two spaces. All other fields, blocks and
// messages stay.
//
// Results are the tool_result blocks of Anthropic, messages with the role "tool" (OpenAI),
// outputs of function calls (OpenAI's Responses API), a functionResponse (Gemini) and a
// tool-result (Vercel AI SDK). Another format is ErrFormat.
//
// It never replaces a file: if a name is used, by this history or by a file with other
// content, it gets the next suffix of -1, -2, ..., but never the name of another id of
// the history. References stay, so a growing history can be offloaded again.
//
// After an error the result is empty. Files that were written before the error stay,
// and the next run uses them.
func OffloadHistory(ctx context.Context, messages []Message, dir string, opts Options) (HistoryResult, error) {
	return inFolder(dir, func(f *folder) (HistoryResult, error) {
		return OffloadHistoryTo(ctx, messages, f.dir, opts, f)
	})
}

// OffloadHistoryTo is OffloadHistory with a writer of the caller. The paths consist of
// the unchanged dir and the names in it.
func OffloadHistoryTo(ctx context.Context, messages []Message, dir string, opts Options, w FileCreator) (HistoryResult, error) {
	if err := opts.Validate(); err != nil {
		return HistoryResult{}, fmt.Errorf("offload history: %w", err)
	}
	res := HistoryResult{Messages: make([]Message, 0, len(messages)), Files: []string{}}
	if opts.belowRatio(messages) {
		res.Messages = append(res.Messages, messages...)
		return res, nil
	}
	names := newFileNames(w, dir, resultPrefix)
	for i, m := range messages {
		if _, err := m.otherResults(); err != nil {
			return HistoryResult{}, fmt.Errorf("offload history: message %d: %w: %w", i, ErrFormat, err)
		}
		for b := range m.historyResults() {
			names.reserve(b)
		}
	}
	for i, m := range messages {
		var parts []replacement
		for b := range m.historyResults() {
			if !opts.offloads(b) {
				continue
			}
			path, err := names.create(ctx, b.id, contentFile(indent(b.value)))
			if err != nil {
				return HistoryResult{}, fmt.Errorf("offload history: message %d, result %q: %w", i, b.id, err)
			}
			parts = append(parts, replacement{b.at, b.before + Quote("[Content offloaded to: ./"+filepath.Base(path)+"]") + b.behind})
			res.OffloadedCount++
			res.FreedChars += contentLength(b.value)
			res.Files = append(res.Files, path)
		}
		res.Messages = append(res.Messages, m.replace(parts))
	}
	return res, nil
}

// offloads reports whether a result is offloaded.
func (o Options) offloads(b block) bool {
	minChars := defaultMinChars
	if o.MinChars != nil {
		minChars = *o.MinChars
	}
	return b.offloadable() && contentLength(b.value) >= minChars
}

// belowRatio reports whether the offloadable part of the history is below MinRatio.
func (o Options) belowRatio(messages []Message) bool {
	if o.MinRatio == nil || *o.MinRatio <= 0 {
		return false
	}
	offloadable, total := 0, 0
	for _, m := range messages {
		if content := m.contentText(); content == "" {
			total += length(m.text)
		} else if kindOf(content) == "a string" {
			total += contentLength(content)
		}
		for b := range m.blocks() {
			total += b.weight()
		}
		for b := range m.historyResults() {
			if o.offloads(b) {
				offloadable += contentLength(b.value)
			}
		}
	}
	// Division is exact at the threshold: 20/100 equals 0.2, but 0.2*total is not
	// always a whole number.
	return total == 0 || float64(offloadable)/float64(total) < *o.MinRatio
}

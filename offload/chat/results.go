package chat

import (
	"context"
	"fmt"
	"slices"
)

// OffloadResults moves the content of each tool_result of m with at least minChars
// (in UTF-16 code units) to its own file, <dir>/<session>/<tool_use_id>.md, and puts a
// reference with the absolute path in its place. Blocks, ids, is_error, cache_control
// and all other fields stay. If the content of m is a string, OffloadResults moves it
// as "unknown".
//
// It never replaces a file: if a file with other content has the name, it uses the next
// suffix of -1, -2, ..., so that repeated and missing ids lose nothing. References, and
// results without content, stay unchanged.
//
// After an error the result is empty. Files that were written before the error stay,
// and the next run uses them.
func OffloadResults(ctx context.Context, m Message, session, dir string, minChars int) (MessageResult, error) {
	return inFolder(dir, func(f *folder) (MessageResult, error) {
		return OffloadResultsTo(ctx, m, session, f.dir, minChars, f)
	})
}

// OffloadResultsTo is OffloadResults with a writer of the caller. The paths consist of
// the unchanged dir and the names in it.
func OffloadResultsTo(ctx context.Context, m Message, session, dir string, minChars int, w FileCreator) (MessageResult, error) {
	if m.content == (span{}) {
		return MessageResult{}, fmt.Errorf("offload results: %w", ErrNoContent)
	}
	res := MessageResult{}
	names := newFileNames(w, below(dir, sessionName(session)), "")
	blocks := m.resultBlocks()
	for _, b := range blocks {
		names.reserve(b)
	}
	var parts []replacement
	for _, b := range blocks {
		chars := contentLength(b.value)
		if !b.offloadable() || chars < minChars {
			continue
		}
		path, err := names.create(ctx, b.id, contentFile(b.value))
		if err != nil {
			return MessageResult{}, fmt.Errorf("offload result %q: %w", b.id, err)
		}
		reference, err := messageReference(path)
		if err != nil {
			return MessageResult{}, fmt.Errorf("offload result %q: %w", b.id, err)
		}
		parts = append(parts, replacement{b.at, Quote(reference)})
		res.FreedChars += chars - length(reference)
		res.Files = append(res.Files, path)
	}
	res.Message = m.replace(parts)
	if len(res.Files) > 0 {
		res.File = res.Files[0]
	}
	return res, nil
}

// resultBlocks returns the results of a message. A content that is a string is a result
// without an id.
func (m Message) resultBlocks() []block {
	if content := m.contentText(); kindOf(content) == "a string" {
		return []block{{text: content, id: m.toolCallID(), value: content, at: m.content, result: true}}
	}
	return slices.Collect(m.results())
}

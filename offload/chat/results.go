package chat

import (
	"context"
	"fmt"
)

// OffloadResults moves the content of each tool_result of m that has at least
// minChars (in UTF-16 code units) to a file of its own,
// <dir>/<session>/<tool_use_id>.md, and puts a reference with the absolute path
// in its place. Blocks, ids, is_error, cache_control and all other fields stay.
// If the content of m is a string, that is moved, as "unknown".
//
// No file is ever replaced: if the name is taken by another content, the next of
// -1, -2, ... is used, so an id that comes again, and results without an id, lose
// nothing. References, and results without content, are left as they are.
//
// After an error the result is empty. Files that were written before the error
// stay; running again finds them.
func OffloadResults(ctx context.Context, m Message, session, dir string, minChars int) (MessageResult, error) {
	return inFolder(dir, func(f *folder) (MessageResult, error) {
		return OffloadResultsTo(ctx, m, session, f.dir, minChars, f)
	})
}

// OffloadResultsTo is OffloadResults with a writer of the caller's. The paths are
// dir, as it was given, and the names below it.
func OffloadResultsTo(ctx context.Context, m Message, session, dir string, minChars int, w FileCreator) (MessageResult, error) {
	if m.content == (span{}) {
		return MessageResult{}, fmt.Errorf("offload results: %w", ErrNoContent)
	}
	res := MessageResult{}
	names := newClaims(w, below(dir, sessionName(session)), "")
	pieces := m.pieces()
	for _, b := range pieces {
		names.reserve(b)
	}
	var parts []replacement
	for _, b := range pieces {
		chars := contentLength(b.value)
		if !b.movable() || chars < minChars {
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
		parts = append(parts, replacement{b.at, reference})
		res.FreedChars += chars - length(reference)
		res.Files = append(res.Files, path)
	}
	res.Message = m.replace(parts)
	if len(res.Files) > 0 {
		res.File = res.Files[0]
	}
	return res, nil
}

// pieces are the results of a message; a content that is a string counts as one
// without an id.
func (m Message) pieces() []block {
	if content := m.contentText(); kindOf(content) == "a string" {
		return []block{{text: content, value: content, at: m.content, result: true}}
	}
	var all []block
	for b := range m.results() {
		all = append(all, b)
	}
	return all
}

package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// MessageResult is an offloaded message.
type MessageResult struct {
	Message Message
	// FreedChars is the old length minus the new length of the contents, in UTF-16
	// code units. It is negative if a reference is longer than the content.
	FreedChars int
	// File is the first of Files; empty if no file was written.
	File string
	// Files are the files, in the order of the blocks.
	Files []string
}

// Length returns the length of a string content or of the JSON of an array content, in
// UTF-16 code units. Callers use it to decide whether to call OffloadMessage.
func (m Message) Length() int { return contentLength(m.contentText()) }

// OffloadMessage moves the whole content of m, of any length, to
// <dir>/<session>/<tool_use_id>.md, and puts a reference with the absolute path in its
// place. The id is that of the first tool_result or of a message with the role "tool"
// (its tool_call_id), or "unknown". OffloadMessage replaces an existing file. It writes a string unchanged, blocks as their JSON.
//
// The new content is a string, so a chat API no longer sees the tool_use_id: see
// OffloadResults. If the content or a result is the reference to the file to be written,
// OffloadMessage returns m unchanged; otherwise the reference would replace the original
// in that file.
//
// After an error an existing file is still whole. ErrNoContent.
func OffloadMessage(ctx context.Context, m Message, session, dir string) (MessageResult, error) {
	return inFolder(dir, func(f *folder) (MessageResult, error) {
		return OffloadMessageTo(ctx, m, session, f.dir, f)
	})
}

// OffloadMessageTo is OffloadMessage with a writer of the caller. The path consists of
// the unchanged dir ("./out" keeps its dot) and the names in it.
func OffloadMessageTo(ctx context.Context, m Message, session, dir string, w FileWriter) (MessageResult, error) {
	if m.content == (span{}) {
		return MessageResult{}, fmt.Errorf("offload message: %w", ErrNoContent)
	}
	path := below(below(dir, sessionName(session)), fileName(m.firstID())+extension)
	reference, err := messageReference(path)
	if err != nil {
		return MessageResult{}, fmt.Errorf("offload message: %w", err)
	}
	if m.refersTo(reference) {
		return MessageResult{Message: m, File: path}, nil
	}
	if err := w.WriteFile(ctx, path, contentFile(m.contentText())); err != nil {
		return MessageResult{}, fmt.Errorf("offload message to %q: %w", path, err)
	}
	return MessageResult{
		Message:    m.replace([]replacement{{m.content, Quote(reference)}}),
		FreedChars: m.Length() - length(reference),
		File:       path,
		Files:      []string{path},
	}, nil
}

// firstID returns the id of the first result: the tool_use_id of the first tool_result,
// or the tool_call_id of a message with the role "tool".
func (m Message) firstID() string {
	for b := range m.results() {
		return b.id
	}
	return m.toolCallID()
}

// refersTo reports whether the content or a result is this reference. Another text that
// looks like a reference is data.
func (m Message) refersTo(reference string) bool {
	is := func(value string) bool {
		return kindOf(value) == "a string" && len(value) <= 6*len(reference)+2 && unquote(value) == reference
	}
	for b := range m.results() {
		if is(b.value) {
			return true
		}
	}
	return is(m.contentText())
}

// contentFile returns the text of the file for a content.
func contentFile(value string) string {
	if kindOf(value) == "a string" {
		return unquote(value)
	}
	return value
}

func messageReference(path string) (string, error) {
	if !utf8.ValidString(path) {
		return "", fmt.Errorf("the path %q is not valid UTF-8, which a message requires; choose another directory", path)
	}
	return messagePrefix + path + "]", nil
}

// below is filepath.Join without cleaning dir.
func below(dir, name string) string {
	if dir == "" || os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

// inFolder calls fn with a folder for the absolute path of dir.
func inFolder[T any](dir string, fn func(*folder) (T, error)) (T, error) {
	var none T
	f, err := newFolder(dir)
	if err != nil {
		return none, err
	}
	res, err := fn(f)
	if err := errors.Join(err, f.close()); err != nil {
		return none, err
	}
	return res, nil
}

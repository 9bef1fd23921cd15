package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// MessageResult is a light message and what became of the heavy one.
type MessageResult struct {
	Message Message
	// FreedChars is by how much the contents became shorter, in UTF-16 code
	// units. It is negative if a reference is longer than what it stands for.
	FreedChars int
	// File is the file that was written, the first one of Files; empty if
	// nothing was.
	File string
	// Files has all of them, in the order of the blocks.
	Files []string
}

// Length returns the length of the message's content, in UTF-16 code units: of a
// string its own, of an array that of its JSON. Callers of OffloadMessage decide
// by it.
func (m Message) Length() int { return contentLength(m.contentText()) }

// OffloadMessage moves the whole content of m, whatever its length, to
// <dir>/<session>/<tool_use_id>.md, and puts a reference with the absolute path
// in its place. The id is that of the first tool_result, or "unknown"; a file
// from before is replaced. A string is written as it is, blocks as their JSON.
//
// The new content is a string, so a chat API no longer sees the tool_use_id:
// see OffloadResults. A message whose content or first result is a reference
// already, or that refers to the file it would go to, is returned as it is,
// because its original would be replaced by the reference to itself.
//
// After an error a file from before is still whole. ErrNoContent.
func OffloadMessage(ctx context.Context, m Message, session, dir string) (MessageResult, error) {
	return inFolder(dir, func(f *folder) (MessageResult, error) {
		return OffloadMessageTo(ctx, m, session, f.dir, f)
	})
}

// OffloadMessageTo is OffloadMessage with a writer of the caller's. The path is
// dir, as it was given ("./out" keeps its dot), and the names below it.
func OffloadMessageTo(ctx context.Context, m Message, session, dir string, w FileWriter) (MessageResult, error) {
	if m.content == (span{}) {
		return MessageResult{}, fmt.Errorf("offload message: %w", ErrNoContent)
	}
	id, before, done := m.look()
	if done {
		return MessageResult{Message: m, File: before}, nil
	}
	path := below(below(dir, sessionName(session)), fileName(id)+extension)
	reference, err := messageReference(path)
	if err != nil {
		return MessageResult{}, fmt.Errorf("offload message: %w", err)
	}
	if err := w.WriteFile(ctx, path, contentFile(m.contentText())); err != nil {
		return MessageResult{}, fmt.Errorf("offload message to %q: %w", path, err)
	}
	return MessageResult{
		Message:    m.withContent(reference),
		FreedChars: m.Length() - length(reference),
		File:       path,
		Files:      []string{path},
	}, nil
}

// look returns the id of the first result. If the message is not to be offloaded
// again, done is true, and path is the path in its reference. Other results that
// are references are no obstacle: the file then holds them, as it holds the rest.
func (m Message) look() (id, path string, done bool) {
	if content := m.contentText(); kindOf(content) == "a string" {
		path, done = referencedPath(content)
		return "", path, done
	}
	first := true
	for b := range m.results() {
		if first {
			id = b.id
		}
		path, done = referencedPath(b.value)
		if done && (first || filepath.Base(path) == fileName(id)+extension) {
			return id, path, true
		}
		first = false
	}
	return id, "", false
}

func referencedPath(value string) (path string, done bool) {
	s := reference(value)
	if path := cutReference(s, messagePrefix); path != "" {
		return path + extension, true
	}
	return "", s != ""
}

// contentFile is what the file of a content holds.
func contentFile(value string) string {
	if kindOf(value) == "a string" {
		return unquote(value)
	}
	return value
}

func messageReference(path string) (string, error) {
	if !utf8.ValidString(path) {
		return "", fmt.Errorf("the path %q is not valid UTF-8 and can not stand in a message; choose another directory", path)
	}
	return messagePrefix + path + "]", nil
}

// below is filepath.Join for a directory that is to stay as it was given.
func below(dir, name string) string {
	if dir == "" || os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

// inFolder runs fn with the real directory.
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

package chat

import (
	"context"
	"errors"
)

// FileWriter writes whole files. The functions without To use a FileWriter that creates
// directories, replaces a file atomically, and returns when it is durable.
type FileWriter interface {
	// WriteFile creates or replaces the file. After an error the old or the new file
	// exists, never a part of it.
	WriteFile(ctx context.Context, path, content string) error
}

// FileCreator writes whole files and never replaces one.
type FileCreator interface {
	// CreateFile creates the file. If the file exists with the same content, that is
	// success; if it exists with other content, it stays and the error is
	// ErrFileExists. After any other error the file is absent or whole, and the
	// caller may try again.
	CreateFile(ctx context.Context, path, content string) error
}

// ErrFileExists means that the file exists with other content.
var ErrFileExists = errors.New("the file exists with other content")

package chat

import (
	"context"
	"errors"
)

// FileWriter writes whole files. The convenience functions use one that creates
// directories, replaces a file atomically, and returns when it is durable.
type FileWriter interface {
	// WriteFile creates or replaces the file. After an error the file is the old
	// one, or the new one (if only its durability is in doubt); never a part.
	WriteFile(ctx context.Context, path, content string) error
}

// FileCreator writes whole files and replaces none.
type FileCreator interface {
	// CreateFile creates the file. If there is one with the same content, that
	// is success; if there is one with another, it stays and the error is
	// ErrTaken. After another error the file is absent, or whole; trying again
	// is safe.
	CreateFile(ctx context.Context, path, content string) error
}

// ErrTaken: the path belongs to a file with another content.
var ErrTaken = errors.New("the file exists with another content")

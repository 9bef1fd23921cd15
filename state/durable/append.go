package durable

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// appendTimeout is how long an append waits for another process that appends.
const appendTimeout = 10 * time.Second

// AppendFile appends line, which ends in a line feed, to the file at path. The
// line is durable when AppendFile returns. A missing file is created with perm, a
// missing directory for its owner only. If AppendFile can write only a part, for
// example on a full disk, it removes that part. If a crash left half a line,
// AppendFile starts a new one. Processes that append to the same file wait for each other,
// where the file system has locks.
func AppendFile(path string, line []byte, perm fs.FileMode) error {
	return appendFile(os.MkdirAll, os.OpenFile, path, line, perm)
}

// AppendFile is AppendFile below the directory.
func (d Dir) AppendFile(name string, line []byte, perm fs.FileMode) error {
	return appendFile(d.Root.MkdirAll, d.Root.OpenFile, name, line, perm)
}

func appendFile(mkdirAll func(string, fs.FileMode) error, open openFunc, name string, line []byte, perm fs.FileMode) error {
	dir := filepath.Dir(name)
	if err := mkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := open(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, perm)
	if err != nil {
		return err
	}
	isNew, err := appendLine(file, line)
	if err != nil || !isNew {
		return err
	}
	return syncDir(open, dir)
}

// appendLine appends to a file, closes it, and reports whether it was empty. To a
// device or a pipe it only writes.
func appendLine(file *os.File, line []byte) (isNew bool, err error) {
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		_, err := file.Write(line)
		return false, err
	}
	// Otherwise the half that another process has written just now looks like that of a crash.
	ctx, cancel := context.WithTimeout(context.Background(), appendTimeout)
	defer cancel()
	if err := Lock(ctx, file); errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	if info, err = file.Stat(); err != nil {
		return false, err
	}
	size := info.Size()
	if size > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if written, err := file.Write(line); err != nil {
		if written > 0 {
			err = errors.Join(err, file.Truncate(size))
		}
		return false, err
	}
	return size == 0, file.Sync()
}

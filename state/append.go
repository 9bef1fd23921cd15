package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// AppendFile appends line, which ends in a line feed, to the file at path; it is
// on disk when AppendFile returns. The file is created with perm, and its
// directory for the owner, where they are missing. If only a part can be
// written, it is taken away again, so that a disk that is full for a while
// leaves no ruins; behind half a line that a crash left, a new one is begun.
func AppendFile(path string, line []byte, perm fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, perm)
	if err != nil {
		return err
	}
	isNew, err := appendLine(file, line)
	if err != nil || !isNew {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(root), root.Close())
}

// AppendRootFile is AppendFile for a file below root, whatever links there are.
func AppendRootFile(root *os.Root, name string, line []byte, perm fs.FileMode) (err error) {
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, perm)
	if err != nil {
		return err
	}
	isNew, err := appendLine(file, line)
	if err != nil || !isNew {
		return err
	}
	sub, err := root.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(sub), sub.Close())
}

// appendLine appends to a file and closes it, and reports whether the file was
// empty. What is no regular file is written to and nothing else.
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

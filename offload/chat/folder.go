package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stevedore-bus/stevedore/state"
)

const (
	filePerm = 0o600 // tool output is private
	dirPerm  = 0o700
)

// folder is the FileWriter and FileCreator on disk, for paths below one
// directory. It makes directories when the first file needs them. A file
// appears whole, durable, and under os.Root: no link leads out of the
// directory. It is not for concurrent use; several folders on one directory are.
type folder struct {
	dir  string   // absolute
	root *os.Root // nil until the first write
}

func newFolder(dir string) (*folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve directory %q: %w", dir, err)
	}
	return &folder{dir: abs}, nil
}

func (f *folder) close() error {
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

// WriteFile is state.WriteFile below the directory.
func (f *folder) WriteFile(ctx context.Context, path, content string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := f.prepare(path)
	if err != nil {
		return err
	}
	return state.StreamRootFile(f.root, name, filePerm, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
}

// CreateFile gives a durable temporary file its name by a hard link instead of a
// rename, because a link replaces nothing, also if somebody else creates the file
// at the same time.
func (f *folder) CreateFile(ctx context.Context, path, content string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := f.prepare(path)
	if err != nil {
		return err
	}
	for range 2 {
		same, err := f.compare(name, content)
		if err == nil && same {
			return f.sync(filepath.Dir(name)) // its creator may not have come so far
		}
		if err == nil {
			return ErrTaken
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err = f.create(name, content)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return ErrTaken
}

// claim gives temp the name, if that is free.
func claim(root *os.Root, temp, name string) error {
	err := root.Link(temp, name)
	switch {
	case err == nil:
		_ = root.Remove(temp) // the file is there; a leftover is no reason to fail
		return nil
	case errors.Is(err, fs.ErrExist):
		return err
	}
	return claimWithoutLink(root, temp, name)
}

// claimWithoutLink is for file systems without hard links: an empty file takes
// the name, and is then replaced. A crash in between leaves the empty file, which
// costs a name and nothing else.
func claimWithoutLink(root *os.Root, temp, name string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	if err := root.Rename(temp, name); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}

// create writes the file if the name is free, else it returns fs.ErrExist.
func (f *folder) create(name, content string) error {
	dir := filepath.Dir(name)
	temp := filepath.Join(dir, ".tmp-"+rand.Text())
	err := f.writeTemp(temp, content)
	if err == nil {
		err = claim(f.root, temp, name)
	}
	if err != nil {
		if gone := f.root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return err
	}
	return f.sync(dir)
}

func (f *folder) writeTemp(temp, content string) error {
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// prepare makes the directories and returns path's name below the root.
func (f *folder) prepare(path string) (string, error) {
	if f.root == nil {
		if err := makeDurable(f.dir); err != nil {
			return "", err
		}
		root, err := os.OpenRoot(f.dir)
		if err != nil {
			return "", err
		}
		f.root = root
	}
	name, err := filepath.Rel(f.dir, path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(name)
	switch err := f.root.Mkdir(dir, dirPerm); {
	case dir == "." || errors.Is(err, fs.ErrExist):
		return name, nil
	case err != nil:
		return "", err
	}
	return name, f.sync(".")
}

// makeDurable is os.MkdirAll that survives a loss of power.
func makeDurable(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDurable(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirPerm); err != nil {
		info, again := os.Stat(dir)
		switch {
		case again != nil:
			return err
		case !info.IsDir():
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil // somebody was faster
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *folder) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// compare reports whether the file has that content. What is not a regular file
// has not; O_NONBLOCK keeps a FIFO from blocking us.
func (f *folder) compare(name, content string) (bool, error) {
	info, err := f.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(content)) {
		return false, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	same, err := equal(file, content)
	return same, errors.Join(err, file.Close())
}

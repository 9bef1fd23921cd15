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

	"github.com/stevedore-bus/stevedore/state/durable"
)

const (
	filePerm = 0o600 // tool output is private
	dirPerm  = 0o700
)

// folder is the FileWriter and the FileCreator on disk, for paths below one directory. It
// creates directories for the first file. A file appears whole and durable, and no
// link leads out of the directory. A folder is not safe for concurrent use, but one
// directory may have several folders.
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

// WriteFile is durable.Dir.WriteFile below the directory.
func (f *folder) WriteFile(ctx context.Context, path, content string) error {
	name, err := f.prepare(ctx, path)
	if err != nil {
		return err
	}
	if err := f.durable().WriteFile(name, []byte(content), filePerm, nil); err != nil {
		return fmt.Errorf("write file %q: %w", name, err)
	}
	return nil
}

// CreateFile gives a complete file its name with a hard link, which never replaces a file.
func (f *folder) CreateFile(ctx context.Context, path, content string) error {
	name, err := f.prepare(ctx, path)
	if err != nil {
		return err
	}
	same, err := f.compare(name, content)
	if errors.Is(err, fs.ErrNotExist) {
		err, same = f.create(name, content), true
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		same, err = f.compare(name, content)
	}
	switch {
	case err != nil:
		return err
	case !same:
		return ErrFileExists
	}
	return f.durable().Sync(filepath.Dir(name)) // also if another process created it: that may not have synced yet
}

// create fails with fs.ErrExist if the name exists.
func (f *folder) create(name, content string) (err error) {
	from := filepath.Join(filepath.Dir(name), ".tmp-"+rand.Text())
	temp, err := f.durable().CreateTemp(from, filePerm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Discard()) }()
	if _, err := temp.WriteString(content); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	err = f.root.Link(from, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.renameWithoutLink(temp, name)
}

func (f *folder) durable() durable.Dir { return durable.Dir{Root: f.root} }

// renameWithoutLink is for file systems without hard links: it creates an empty
// file under the name and replaces that. A crash in between leaves the empty file.
func (f *folder) renameWithoutLink(temp *durable.Temp, name string) error {
	empty, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return err
	}
	if err := errors.Join(empty.Close(), temp.Close()); err != nil {
		return errors.Join(err, f.root.Remove(name))
	}
	if err := temp.Rename(name); err != nil {
		return errors.Join(err, f.root.Remove(name))
	}
	return nil
}

// prepare makes the directories and returns path's name below the root.
func (f *folder) prepare(ctx context.Context, path string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if f.root == nil {
		root, err := durable.OpenRoot(f.dir, dirPerm)
		if err != nil {
			return "", err
		}
		f.root = root
	}
	name, err := filepath.Rel(f.dir, path)
	if err != nil {
		return "", err
	}
	return name, f.durable().MkdirAll(filepath.Dir(name), dirPerm)
}

// compare reports whether the file is regular and has that content. O_NONBLOCK keeps
// a FIFO from blocking.
func (f *folder) compare(name, content string) (bool, error) {
	info, err := f.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(content)) {
		return false, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	data, err := io.ReadAll(file)
	return string(data) == content, errors.Join(err, file.Close())
}

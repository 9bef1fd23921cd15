package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

// change calls do with the path of a file relative to the root, while no other tool changes a file,
// and returns the text of do.
func (ws *workspace) change(ctx context.Context, op, path string, do func(rel string) (text string, err error)) *tools.Result {
	rel, err := ws.rel(path)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	if err != nil {
		return tools.Failure(err)
	}
	ws.edit.Lock()
	defer ws.edit.Unlock()
	defer ws.lock(ctx, filepath.Dir(rel))()
	text, err := do(rel)
	if err != nil {
		return tools.Failure(ws.explain(op, path, err))
	}
	return tools.SilentResult(text)
}

// lockTimeout is how long a change waits for those of other workers. One may have been stopped.
const lockTimeout = 5 * time.Second

// lock keeps other workers with this workspace from changing files of a directory until unlock. Without it, as of a file system that
// has no locks, a change still fails if it sees another one.
func (ws *workspace) lock(ctx context.Context, dir string) (unlock func()) {
	info, err := ws.root.Stat(dir) // opening a named pipe would wait for its writer
	if err != nil || !info.IsDir() {
		return func() {} // there is nothing that others could change
	}
	root, err := ws.root.OpenRoot(dir)
	if err != nil {
		return func() {}
	}
	defer root.Close()
	f, err := root.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	_ = durable.Lock(ctx, f)
	return func() { _ = f.Close() }
}

// target returns the file at rel, or nil if there is none. It refuses a symbolic link:
// replacing the name would remove the link, and following it would write to another
// name.
func (ws *workspace) target(rel string) (fs.FileInfo, error) {
	info, err := ws.root.Lstat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := ws.root.Readlink(rel)
		return nil, fmt.Errorf("it is a symbolic link to %q; write to that path instead", to)
	}
	return info, ws.checkFile(info)
}

// replace writes the file durably and makes missing directories. old is the file
// that it replaces, nil if there is none. If that file changed since target
// returned it, replace fails and writes nothing.
func (ws *workspace) replace(ctx context.Context, rel string, data []byte, old fs.FileInfo) error {
	parent, name, err := ws.openParent(ctx, rel)
	if err != nil {
		return err
	}
	defer parent.Close()
	return durable.Dir{Root: parent}.WriteFile(name, data, 0o644, func() error { return unchanged(parent, name, old) })
}

var errChanged = errors.New("the file has changed since it was read; read it again")

// unchanged fails if the file is no longer old.
func unchanged(dir *os.Root, name string, old fs.FileInfo) error {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && old == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) || err == nil && old == nil:
		return errChanged
	case err != nil:
		return err
	case !os.SameFile(info, old) || info.Size() != old.Size() || !info.ModTime().Equal(old.ModTime()):
		return errChanged
	}
	return nil
}

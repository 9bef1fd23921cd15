package builtin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// target looks at the file that is to be written at rel: nil if there is none.
// A symbolic link is refused, because replacing the name would cut the link and
// following it would write elsewhere than the name says.
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

// replace gives the file rel a new content, or makes it: whoever looks, also
// after a crash, finds the old content or the new one. old is the file that is
// replaced, nil if there is none; its mode is kept, and if it is not the one
// that is there in the end, nothing is written.
//
//	openat(dir, ".stevedore-*", O_CREAT|O_EXCL), write, fchmod, fsync, close
//	renameat(".stevedore-*", name)
//	fsync(dir)
func (ws *workspace) replace(rel string, data []byte, old fs.FileInfo) (err error) {
	dir, err := ws.parent(rel)
	if err != nil {
		return err
	}
	defer dir.Close()
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
	}
	temp := ".stevedore-" + rand.Text()
	if err := writeTemp(dir, temp, data, mode, old != nil); err != nil {
		return errors.Join(err, ignoreAbsent(dir.Remove(temp)))
	}
	name := filepath.Base(rel)
	if err := unchanged(dir, name, old); err != nil {
		return errors.Join(err, dir.Remove(temp))
	}
	if err := dir.Rename(temp, name); err != nil {
		return errors.Join(err, dir.Remove(temp))
	}
	return syncDir(dir)
}

// parent opens the directory of rel. If it has to be made, that is made durable
// as well.
func (ws *workspace) parent(rel string) (*os.Root, error) {
	path := filepath.Dir(rel)
	dir, err := ws.root.OpenRoot(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := ws.root.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	for above := path; above != "."; {
		above = filepath.Dir(above)
		d, err := ws.root.OpenRoot(above)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(syncDir(d), d.Close()); err != nil {
			return nil, err
		}
	}
	return ws.root.OpenRoot(path)
}

// writeTemp writes a file that is whole and durable when it returns. A new file
// gets the mode that the process's umask leaves; the mode of one that is
// replaced is kept.
func writeTemp(dir *os.Root, name string, data []byte, mode fs.FileMode, keep bool) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && keep {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

var errChanged = errors.New("somebody else changed the file meanwhile; read it again")

// unchanged fails if the file name is not old any more.
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

func syncDir(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) { // the file system has nothing to sync
		err = nil
	}
	return errors.Join(err, f.Close())
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

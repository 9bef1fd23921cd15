package offload

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
)

// diskDir is a directory whose files are replaced whole and durably: written
// to a temporary file, synced, renamed, and the directory synced.
type diskDir struct {
	root *os.Root
	// locks keep the goroutines of this process in line; the lock files, which
	// only one of them then waits for, the processes.
	locks [lockCount]chan struct{}
	made  sync.Map // directories that are known to be there
}

const (
	tempDir   = ".tmp"
	lockDir   = ".locks"
	lockCount = 64
)

func openDiskDir(dir string) (*diskDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &diskDir{root: root}
	for i := range d.locks {
		d.locks[i] = make(chan struct{}, 1)
	}
	for _, name := range []string{tempDir, lockDir} {
		if err := d.mkdir(name); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return d, nil
}

// lock takes the lock that key falls on; unlock gives it back. Two keys may
// share a lock, so nobody takes a second one.
func (d *diskDir) lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	io.WriteString(h, key)
	n := h.Sum32() % lockCount
	select {
	case d.locks[n] <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := d.root.OpenFile(fmt.Sprintf("%s/%02d", lockDir, n), os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err == nil {
		if err = flock(ctx, f); err != nil {
			f.Close()
		}
	}
	if err != nil {
		<-d.locks[n]
		return nil, err
	}
	return func() {
		f.Close()
		<-d.locks[n]
	}, nil
}

// mkdir makes a directory and its parents, durably.
func (d *diskDir) mkdir(name string) error {
	if _, ok := d.made.Load(name); ok || name == "." {
		return nil
	}
	if err := d.mkdir(path.Dir(name)); err != nil {
		return err
	}
	err := d.root.Mkdir(name, 0o700)
	if err == nil {
		err = d.syncDir(path.Dir(name))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.made.Store(name, true)
	return nil
}

// syncDir makes the names in a directory durable.
func (d *diskDir) syncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// temp creates a temporary file; name is for rename or remove.
func (d *diskDir) temp() (f *os.File, name string, err error) {
	name = tempDir + "/" + rand.Text()
	f, err = d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	return f, name, err
}

// replace puts data at name, durably; name has the old content or the new.
func (d *diskDir) replace(name string, write func(io.Writer) error) error {
	if err := d.mkdir(path.Dir(name)); err != nil {
		return err
	}
	temp, err := d.stage(write)
	if err != nil {
		return err
	}
	if err := d.root.Rename(temp, name); err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	return d.syncDir(path.Dir(name))
}

// stage writes a temporary file whose bytes are durable.
func (d *diskDir) stage(write func(io.Writer) error) (temp string, err error) {
	f, temp, err := d.temp()
	if err != nil {
		return "", err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, d.root.Remove(temp))
	}
	return temp, nil
}

// open opens a regular file for reading, and nothing else.
func (d *diskDir) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// remove removes a file and makes that durable; a missing one is fine.
func (d *diskDir) remove(name string) error {
	err := d.root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.syncDir(path.Dir(name))
}

// names lists a directory; a missing one is empty.
func (d *diskDir) names(dir string) ([]fs.DirEntry, error) {
	f, err := d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	return entries, errors.Join(err, f.Close())
}

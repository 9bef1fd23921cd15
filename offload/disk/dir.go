package disk

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

	"github.com/stevedore-bus/stevedore/state/durable"
)

// dir is the directory of a store. It replaces whole files: it writes and syncs a
// temporary file, renames it, and syncs the directory.
type dir struct{ durable.Dir }

const (
	tempDir = ".tmp"
	lockDir = ".locks"
	// lockCount is how many lock files the keys share.
	lockCount = 256
)

var ownDirs = []string{tempDir, lockDir, blobDir}

func openDir(path string) (*dir, error) {
	root, err := durable.OpenRoot(path, 0o700)
	if err != nil {
		return nil, err
	}
	d := &dir{durable.Dir{Root: root}}
	if err = openFormat(path, d); err != nil { // before the store writes anything
		return nil, errors.Join(err, root.Close())
	}
	for _, name := range ownDirs {
		if err := d.mkdir(name); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return d, nil
}

// isComplete reports whether the directory has those that each store has.
func (d *dir) isComplete() bool {
	for _, name := range ownDirs {
		if _, err := d.Root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// lock takes the lock of a key, which excludes other goroutines and processes. Keys share
// locks, so a goroutine must not hold two of them. It may hold one and then take that of the quota.
func (d *dir) lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	io.WriteString(h, key)
	return d.lockFile(ctx, fmt.Sprintf("%02x", h.Sum32()%lockCount))
}

func (d *dir) lockFile(ctx context.Context, name string) (unlock func(), err error) {
	f, err := d.Root.OpenFile(lockDir+"/"+name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.Lock(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// mkdir makes a directory durably, unless it exists.
func (d *dir) mkdir(name string) error { return d.MkdirAll(name, 0o700) }

func tempName() string { return tempDir + "/" + rand.Text() }

// writeTemp writes a temporary file and makes its content durable.
func (d *dir) writeTemp(perm fs.FileMode, write func(io.Writer) error) (*durable.Temp, error) {
	t, err := d.CreateTemp(tempName(), perm)
	if err != nil {
		return nil, err
	}
	if err = write(t); err == nil {
		err = t.Sync()
	}
	if err != nil {
		t.Discard()
		return nil, err
	}
	return t, nil
}

// replace replaces a file. A sync of its directory makes that durable.
func (d *dir) replace(name string, perm fs.FileMode, write func(io.Writer) error) error {
	t, err := d.writeTemp(perm, write)
	if err != nil {
		return err
	}
	defer t.Discard()
	return t.Rename(name)
}

// open opens a regular file for reading.
func (d *dir) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := d.Root.OpenFile(name, os.O_RDONLY|noFollow, 0)
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

// remove durably removes a file. A missing file is no error.
func (d *dir) remove(name string) error {
	err := d.Root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.Sync(path.Dir(name))
}

// list lists a directory. A missing directory is empty.
func (d *dir) list(name string) ([]fs.DirEntry, error) {
	f, err := d.Root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	return entries, errors.Join(err, f.Close())
}

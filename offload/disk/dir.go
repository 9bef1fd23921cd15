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
	"sync"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// dir is the directory of a store. It replaces whole files: it writes and syncs a
// temporary file, renames it, and syncs the directory.
type dir struct {
	durable.Dir
	locks [lockCount]fileLock
	quota fileLock // held while the store checks the quota and adds a blob
	made  sync.Map // directories that exist
}

// fileLock excludes the other goroutines of this process, and other processes by the
// lock of its file.
type fileLock struct {
	held chan struct{} // has one element while a goroutine holds the lock
	file *os.File      // opened at the first use; the holder owns it
}

const (
	tempDir   = ".tmp"
	lockDir   = ".locks"
	lockCount = 64
)

func openDir(path string) (*dir, error) {
	root, err := durable.OpenRoot(path, 0o700)
	if err != nil {
		return nil, err
	}
	d := &dir{Dir: durable.Dir{Root: root}}
	d.quota.held = make(chan struct{}, 1)
	for i := range d.locks {
		d.locks[i].held = make(chan struct{}, 1)
	}
	if err := openFormat(path, d); err != nil { // before the store writes anything
		return nil, errors.Join(err, root.Close())
	}
	for _, name := range []string{tempDir, lockDir} {
		if err := d.mkdir(name); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return d, nil
}

func (d *dir) close() error {
	err := d.Root.Close() // first, so that no goroutine opens another lock file
	for i := range lockCount + 1 {
		l := &d.quota
		if i < lockCount {
			l = &d.locks[i]
		}
		select {
		case l.held <- struct{}{}:
			l.close()
			<-l.held
		default: // its holder closes it, because the unlock fails
		}
	}
	return err
}

// lock takes the lock of a key. Keys share locks, so a goroutine must not hold two.
func (d *dir) lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	io.WriteString(h, key)
	n := h.Sum32() % lockCount
	return d.take(ctx, &d.locks[n], fmt.Sprintf("%02d", n))
}

// lockQuota takes the lock of the quota. A goroutine may hold one other lock before.
func (d *dir) lockQuota(ctx context.Context) (unlock func(), err error) {
	return d.take(ctx, &d.quota, "quota")
}

func (d *dir) take(ctx context.Context, l *fileLock, file string) (unlock func(), err error) {
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.file == nil {
		l.file, err = d.Root.OpenFile(lockDir+"/"+file, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	}
	if err == nil {
		err = durable.Lock(ctx, l.file)
	}
	if err != nil {
		<-l.held
		return nil, err
	}
	return func() {
		if durable.Unlock(l.file) != nil {
			l.close() // which also unlocks
		}
		<-l.held
	}, nil
}

// close closes the file. The next holder opens it again.
func (l *fileLock) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// mkdir makes a directory durably, unless it exists.
func (d *dir) mkdir(name string) error {
	if _, ok := d.made.Load(name); ok {
		return nil
	}
	if err := d.MkdirAll(name, 0o700); err != nil {
		return err
	}
	d.made.Store(name, true)
	return nil
}

// tempFile is a new file in tempDir.
type tempFile struct {
	*durable.Temp
	name string
}

// createTemp creates a temporary file. The caller must call Discard.
func (d *dir) createTemp() (*tempFile, error) {
	name := tempName()
	t, err := d.CreateTemp(name, 0o600)
	if err != nil {
		return nil, err
	}
	return &tempFile{t, name}, nil
}

func tempName() string { return tempDir + "/" + rand.Text() }

// retryRename calls rename, which moves a file to name. If the directory of name was
// removed, retryRename makes it again.
func (d *dir) retryRename(name string, rename func(name string) error) error {
	err := rename(name)
	if errors.Is(err, fs.ErrNotExist) {
		d.made.Delete(path.Dir(name))
		if err = d.mkdir(path.Dir(name)); err == nil {
			err = rename(name)
		}
	}
	return err
}

// replace durably replaces a file.
func (d *dir) replace(name string, write func(io.Writer) error) error {
	if err := d.mkdir(path.Dir(name)); err != nil {
		return err
	}
	t, err := d.writeTemp(write)
	if err != nil {
		return err
	}
	defer t.Discard()
	if err := d.retryRename(name, t.Rename); err != nil {
		return err
	}
	return d.Sync(path.Dir(name))
}

// writeTemp writes a temporary file and makes its content durable.
func (d *dir) writeTemp(write func(io.Writer) error) (*tempFile, error) {
	t, err := d.createTemp()
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

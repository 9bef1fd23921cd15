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
)

// diskDir is a directory whose files are replaced whole and durably: written
// to a temporary file, synced, renamed, and the directory synced.
type diskDir struct {
	root  *os.Root
	locks [lockCount]diskLock
	made  sync.Map // directories that are known to be there
}

// diskLock keeps the goroutines of this process in line, and by its file, which
// only one of them then waits for, the processes.
type diskLock struct {
	held chan struct{} // has room for the one that holds it
	file *os.File      // open since the first use; for the holder
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
		d.locks[i].held = make(chan struct{}, 1)
	}
	for _, name := range []string{tempDir, lockDir} {
		if err := d.mkdir(name); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return d, nil
}

// close gives the directory and the lock files back.
func (d *diskDir) close() error {
	err := d.root.Close() // first: nobody opens another lock file
	for i := range d.locks {
		l := &d.locks[i]
		select {
		case l.held <- struct{}{}:
			l.drop()
			<-l.held
		default: // its holder, who is not done, has it closed in the end
		}
	}
	return err
}

// lock takes the lock that key falls on; unlock gives it back. Two keys may
// share a lock, so nobody takes a second one.
func (d *diskDir) lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	io.WriteString(h, key)
	n := h.Sum32() % lockCount
	l := &d.locks[n]
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.file == nil {
		l.file, err = d.root.OpenFile(fmt.Sprintf("%s/%02d", lockDir, n), os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	}
	if err == nil {
		err = flock(ctx, l.file)
	}
	if err != nil {
		<-l.held
		return nil, err
	}
	return func() {
		if funlock(l.file) != nil {
			l.drop() // which unlocks as well
		}
		<-l.held
	}, nil
}

// drop closes the file; the next holder opens it again.
func (l *diskLock) drop() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
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
	f, err := d.root.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// tempFile is a file that nobody sees yet.
type tempFile struct {
	*os.File
	dir  *diskDir
	name string // empty once it is some other file
}

// temp creates a temporary file.
func (d *diskDir) temp() (*tempFile, error) {
	name := tempDir + "/" + rand.Text()
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	return &tempFile{f, d, name}, nil
}

// become gives the file another name, in place of what has it. A directory that
// somebody removed is made again.
func (t *tempFile) become(name string) error {
	err := t.dir.root.Rename(t.name, name)
	if errors.Is(err, fs.ErrNotExist) {
		t.dir.made.Delete(path.Dir(name))
		if err = t.dir.mkdir(path.Dir(name)); err == nil {
			err = t.dir.root.Rename(t.name, name)
		}
	}
	if err != nil {
		return err
	}
	t.name = ""
	return nil
}

// discard closes the file, and removes it unless it became another.
func (t *tempFile) discard() {
	t.Close()
	if t.name != "" {
		t.dir.root.Remove(t.name)
	}
}

// replace puts data at name, durably; name has the old content or the new.
func (d *diskDir) replace(name string, write func(io.Writer) error) error {
	if err := d.mkdir(path.Dir(name)); err != nil {
		return err
	}
	t, err := d.stage(write)
	if err != nil {
		return err
	}
	defer t.discard()
	if err := t.become(name); err != nil {
		return err
	}
	return d.syncDir(path.Dir(name))
}

// stage writes a temporary file whose bytes are durable.
func (d *diskDir) stage(write func(io.Writer) error) (*tempFile, error) {
	t, err := d.temp()
	if err != nil {
		return nil, err
	}
	if err = write(t); err == nil {
		err = t.Sync()
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
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

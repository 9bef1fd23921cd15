package chat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/stevedore-bus/stevedore/state/durable"
)

const (
	batchFiles = 128 // files that are written before they are named; each is open until then
	syncers    = 16  // files that are synced at the same time
)

// batch is the FileCreator on disk. It names and syncs many files together: a file system
// syncs many files in little more time than one. The files have their names and are durable
// when flush returns. A name is a hard link, which never replaces a file. If another process
// takes a name in the meantime, flush returns errNameTaken, and inBatch starts again.
type batch struct {
	*folder
	files   []*pendingFile
	names   map[string]bool // of files
	synced  sync.WaitGroup
	slots   chan struct{}
	syncDir map[string]bool // directories with files to make durable
}

type pendingFile struct {
	temp *durable.Temp
	from string
	to   string
	err  error // of its sync
}

var errNameTaken = errors.New("another process took the name of a file")

// maxTries bounds how often inBatch starts again because another process creates files in
// the directory.
const maxTries = 100

// inBatch calls fn with a batch for the absolute path of dir.
func inBatch[T any](dir string, fn func(*batch) (T, error)) (T, error) {
	return inFolder(dir, func(f *folder) (T, error) {
		for tries := 0; ; tries++ {
			files := newBatch(f)
			res, err := fn(files)
			if flushErr := files.flush(); err == nil {
				err = flushErr
			}
			if !errors.Is(err, errNameTaken) || tries == maxTries {
				return res, err
			}
		}
	})
}

func newBatch(f *folder) *batch {
	return &batch{folder: f, names: map[string]bool{}, slots: make(chan struct{}, syncers), syncDir: map[string]bool{}}
}

// CreateFile implements FileCreator, except that flush completes it.
func (b *batch) CreateFile(ctx context.Context, path, content string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := b.prepare(path)
	if err != nil {
		return err
	}
	if b.names[name] {
		return ErrFileExists
	}
	same, err := b.compare(name, content)
	switch {
	case err == nil && !same:
		return ErrFileExists
	case err == nil:
		b.syncDir[filepath.Dir(name)] = true // its creator may not have synced it yet
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := b.start(name, content); err != nil {
		return err
	}
	if len(b.files) < batchFiles {
		return nil
	}
	return b.flush()
}

// start writes a temporary file and begins to sync it.
func (b *batch) start(name, content string) error {
	f := &pendingFile{from: tempName(name), to: name}
	var err error
	if f.temp, err = b.durable().CreateTemp(f.from, filePerm); err != nil {
		return err
	}
	if _, err := f.temp.WriteString(content); err != nil {
		return errors.Join(err, f.temp.Discard())
	}
	b.files = append(b.files, f)
	b.names[name] = true
	b.slots <- struct{}{}
	b.synced.Go(func() {
		f.err = f.temp.Sync()
		<-b.slots
	})
	return nil
}

// flush names the files that are pending and makes them durable. After an error, each of
// them is whole or absent.
func (b *batch) flush() (err error) {
	b.synced.Wait()
	for _, f := range b.files {
		if err == nil {
			err = f.err
		}
		if err == nil {
			err = b.name(f)
		}
		if removeErr := f.temp.Discard(); err == nil {
			err = removeErr
		}
	}
	b.files = b.files[:0]
	clear(b.names)
	for dir := range b.syncDir {
		if err == nil {
			err = b.durable().Sync(dir)
		}
	}
	clear(b.syncDir)
	return err
}

// name gives a file its name.
func (b *batch) name(f *pendingFile) error {
	err := b.root.Link(f.from, f.to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = b.renameWithoutLink(f.temp, f.to)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %q", errNameTaken, f.to)
	}
	b.syncDir[filepath.Dir(f.to)] = true
	return err
}

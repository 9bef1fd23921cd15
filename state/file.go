package state

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// FileConfig has the optional parts of a File.
type FileConfig struct {
	// Log receives an error when a corrupt file was moved aside. The zero Logger is
	// silent.
	Log zerolog.Logger
	// LockTimeout is how long a save waits for other processes that save to the
	// same file. Default 10 seconds.
	LockTimeout time.Duration
}

// File is a Store in one JSON file, which several processes may share. It needs no
// Close.
//
// Calls of Set that arrive during a save wait, and the next save writes all of
// them (group commit): 64 callers need few more fsyncs than one.
//
// A save renames a file that is not JSON of the expected shape to its name plus
// ".corrupt-" and the time, and logs that. The empty file with the suffix ".lock"
// must stay.
type File struct {
	path   string
	config FileConfig
	// hook is the Hook of saves, for tests.
	hook func(durable.Operation, func() error) error

	// saving has the one caller that saves. Only that caller uses the lock file and
	// writes the file.
	saving chan struct{}
	// seen is the file as last read or written; immutable.
	seen atomic.Pointer[snapshot]

	mu   sync.Mutex
	next *batch // what the next save writes, nil if nothing
}

// batch is what one save writes for all callers that wait for it.
type batch struct {
	values  map[string]string // guarded by File.mu until the save begins
	callers int               // guarded by File.mu
	done    chan struct{}
	err     error // valid after done is closed
}

// OpenFile returns the Store in the file at path. The directory must exist and be
// writable. OpenFile removes what crashed saves left and moves a corrupt file
// aside.
func OpenFile(path string, config FileConfig) (*File, error) {
	config.LockTimeout = cmp.Or(max(config.LockTimeout, 0), 10*time.Second)
	// A save replaces the target of a symbolic link, not the link.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f := &File{path: path, config: config, saving: make(chan struct{}, 1)}
	f.seen.Store(&snapshot{doc: &document{}})
	err := f.locked(func(dir durable.Dir) error {
		// The lock excludes saves: every temporary file is that of a dead process.
		if err := dir.RemoveTemps(filepath.Base(path)); err != nil {
			return err
		}
		_, err := f.loadLocked()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open state file %q: %w", path, err)
	}
	return f, nil
}

// Get reads the file, so it returns what other processes wrote as well. While the file is
// corrupt, Get returns what it last read.
func (f *File) Get(_ context.Context, key string) (Fact, error) {
	doc, err := f.load()
	if err != nil && !isCorrupt(err) {
		return Fact{}, fmt.Errorf("get state %q: %w", key, err)
	}
	return doc.Facts[key], nil
}

// Set writes all values in one step.
func (f *File) Set(ctx context.Context, values map[string]string) error {
	if err := f.set(ctx, values); err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	return nil
}

func (f *File) set(ctx context.Context, values map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := CheckValues(values)
	if err == nil { // values that no file can store must not fail the other callers
		_, _, err = new(document).with(values, time.Now().UTC())
	}
	if err != nil {
		return err
	}
	b := f.join(values)
	select {
	case <-b.done:
	case f.saving <- struct{}{}:
		if f.begin(b) {
			b.err = f.save(b.values)
			close(b.done)
		}
		<-f.saving
	case <-ctx.Done():
		f.leave(b)
		return ctx.Err()
	}
	return b.err
}

// join adds values to the next batch.
func (f *File) join(values map[string]string) *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &batch{values: make(map[string]string), done: make(chan struct{})}
	}
	maps.Copy(f.next.values, values)
	f.next.callers++
	return f.next
}

// leave removes a caller. A batch without callers must not be saved later, when
// its values may be out of date.
func (f *File) leave(b *batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.callers--
	if b.callers == 0 && f.next == b {
		f.next = nil
	}
}

// begin closes the batch for further callers. It reports false if another caller has saved the
// batch already.
func (f *File) begin(b *batch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != b {
		return false
	}
	f.next = nil
	return true
}

// save adds values to the facts on disk. Other callers see them only after they
// are on disk.
func (f *File) save(values map[string]string) error {
	return f.locked(func(dir durable.Dir) error {
		doc, err := f.loadLocked()
		if err != nil {
			return err
		}
		next, data, err := doc.with(values, time.Now().UTC())
		if err != nil {
			return err
		}
		if err := dir.WriteFile(filepath.Base(f.path), data, 0o600, nil); err != nil {
			return fmt.Errorf("write state file %q: %w", f.path, err)
		}
		f.seen.Store(&snapshot{data, next})
		return nil
	})
}

// locked calls do while no other process saves to the file. The lock is that of
// another file, because each save replaces this one.
func (f *File) locked(do func(durable.Dir) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), f.config.LockTimeout)
	defer cancel()
	unlock, err := durable.LockFile(ctx, f.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer root.Close()
	return do(durable.Dir{Root: root, Hook: f.hook})
}

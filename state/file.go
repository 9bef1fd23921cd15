package state

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// maxFacts and maxFileSize bound what a flood of sessions can make of a file
// that is written whole with each save.
const (
	maxFacts    = 10_000
	maxFileSize = 16 << 20
)

// FileConfig are the optional parts of a File.
type FileConfig struct {
	// Log receives an error when a corrupt file was moved aside. The zero
	// Logger is silent.
	Log zerolog.Logger
	// LockTimeout is how long a save waits for other processes that save to
	// the same file. Default 10 seconds.
	LockTimeout time.Duration
}

// File is a Store in one JSON file (see document), which several processes may
// share. It needs no Close.
//
// Saves that come while another is being written wait, and are then written
// together: each is durable before it returns, and 64 callers need few more
// fsyncs than one.
//
// A file that is not JSON of the expected shape is moved aside, to its name
// plus ".corrupt-" and the time, and reported to the log. Beside the file lies
// an empty one with the suffix ".lock", which must stay.
type File struct {
	path   string
	config FileConfig
	// hook is the Hook of saves, for tests.
	hook func(durable.Operation, func() error) error

	// turn is held by the caller that writes for all who wait. The lock file
	// and the file are only touched by it.
	turn chan struct{}
	// seen is the file as last read or written; immutable.
	seen atomic.Pointer[snapshot]

	mu    sync.Mutex
	queue []*save // waiting for the next commit
}

// OpenFile returns the Store in the file at path, whose directory must exist.
// It makes sure that the directory can be written to, removes what crashed
// saves left, and moves a corrupt file aside.
func OpenFile(path string, config FileConfig) (*File, error) {
	if config.LockTimeout <= 0 {
		config.LockTimeout = 10 * time.Second
	}
	// Saves replace the file; a link stays and its target is replaced.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f := &File{path: path, config: config, turn: make(chan struct{}, 1)}
	f.seen.Store(&snapshot{doc: &document{}})
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("open state file %q: %w", path, err)
	}
	return f, nil
}

// lock excludes the other processes that save to the file. The lock is that of
// another file, because each save replaces this one.
func (f *File) lock() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.config.LockTimeout)
	defer cancel()
	return durable.LockFile(ctx, f.path+".lock")
}

func (f *File) open() error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	// No other process saves now: every temporary file is that of a dead process.
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := (durable.Dir{Root: root}).RemoveTemps(filepath.Base(f.path)); err != nil {
		return err
	}
	_, err = f.refresh()
	return err
}

// Get reads the file, so it sees what other processes wrote. While the file is
// corrupt it answers with what it last read; the next save moves it aside.
func (f *File) Get(ctx context.Context, key string) (Fact, error) {
	if err := checkKey(key); err != nil {
		return Fact{}, fmt.Errorf("get state: %w", err)
	}
	doc, err := f.read()
	if err != nil {
		return Fact{}, fmt.Errorf("get state %q: %w", key, err)
	}
	fact := doc.facts[key].Fact
	fact.Key = key
	return fact, ctx.Err()
}

// List reads the file like Get.
func (f *File) List(ctx context.Context, prefix string) ([]Fact, error) {
	doc, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("list state %q: %w", prefix, err)
	}
	var facts []Fact
	for _, key := range slices.Sorted(maps.Keys(doc.facts)) {
		if hasPrefix(key, prefix) {
			facts = append(facts, doc.facts[key].Fact)
		}
	}
	return facts, ctx.Err()
}

// Set writes all values in one step.
func (f *File) Set(ctx context.Context, values map[string]string) error {
	if err := checkAll(values); err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	err := f.save(ctx, func(d *document, now time.Time) error {
		added := 0
		for key, value := range values {
			if _, ok := d.facts[key]; !ok && value != "" {
				added++
			}
		}
		if added > 0 && len(d.facts)+added > maxFacts {
			return ErrFull
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			d.set(key, values[key], now)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	return nil
}

// Update changes one fact.
func (f *File) Update(ctx context.Context, key string, change func(Fact) (string, error)) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("update state: %w", err)
	}
	var changeErr error
	err := f.save(ctx, func(d *document, now time.Time) error {
		old, ok := d.facts[key]
		fact := old.Fact
		fact.Key = key
		value, err := change(fact)
		if err != nil {
			changeErr = err
			return err
		}
		if value == fact.Value {
			return nil
		}
		if err := checkValue(key, value); err != nil {
			return err
		}
		if !ok && len(d.facts) >= maxFacts {
			return ErrFull
		}
		d.set(key, value, now)
		return nil
	})
	if changeErr != nil {
		return changeErr
	}
	if err != nil {
		return fmt.Errorf("update state %q: %w", key, err)
	}
	return nil
}

package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// save is one caller's wish, applied by whoever has the turn.
type save struct {
	apply func(d *document, now time.Time) error // with an error, d is as before
	done  chan struct{}
	err   error // after done
}

// save queues one change and returns when it is durable. The caller that gets
// the turn commits everything queued by then, its own change or not.
func (f *File) save(ctx context.Context, apply func(*document, time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := &save{apply: apply, done: make(chan struct{})}
	f.mu.Lock()
	f.queue = append(f.queue, s)
	f.mu.Unlock()

	select {
	case <-s.done:
		return s.err
	case f.turn <- struct{}{}:
		f.commitQueue()
		<-f.turn
	case <-ctx.Done():
		if f.withdraw(s) {
			return ctx.Err()
		}
	}
	<-s.done
	return s.err
}

// withdraw takes s out of the queue; false if it is already being committed.
func (f *File) withdraw(s *save) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.queue, s)
	if i < 0 {
		return false
	}
	f.queue = slices.Delete(f.queue, i, i+1)
	return true
}

func (f *File) commitQueue() {
	batch := f.takeQueue()
	if len(batch) == 0 {
		return
	}
	err := f.commit(batch)
	for _, s := range batch {
		if s.err == nil {
			s.err = err
		}
		close(s.done)
	}
}

// takeQueue takes all that is queued. First it lets run who can run: the callers
// that the last commit released come back together, and the first of them would
// else write alone while the others wait for the next one.
func (f *File) takeQueue() []*save {
	for before := 0; ; {
		f.mu.Lock()
		batch := f.queue
		if len(batch) == before {
			f.queue = nil
			f.mu.Unlock()
			return batch
		}
		before = len(batch)
		f.mu.Unlock()
		runtime.Gosched()
	}
}

// commit applies the batch to what is on the disk now, writes it, and only then
// lets it be seen.
func (f *File) commit(batch []*save) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	doc, err := f.refresh()
	if err != nil {
		return err
	}

	next := doc.clone()
	now := time.Now().UTC()
	for _, s := range batch {
		s.err = applySafely(s, next, now)
	}
	if next.revision == doc.revision {
		return nil
	}
	data, err := next.encode()
	if err != nil {
		return err
	}
	if len(data) > maxFileSize {
		return ErrFull
	}
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := (durable.Dir{Root: root, Hook: f.hook}).WriteFile(filepath.Base(f.path), data, 0o600, nil); err != nil {
		return fmt.Errorf("write state file %q: %w", f.path, err)
	}
	f.seen.Store(&snapshot{data, next})
	return nil
}

// applySafely calls what changes all it wants or, with an error, nothing. It
// keeps one caller's panic from taking the others' saves with it.
func applySafely(s *save, d *document, now time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the change panicked: %v", p)
		}
	}()
	return s.apply(d, now)
}

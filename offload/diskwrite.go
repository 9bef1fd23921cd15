package offload

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
)

// writeback writes a file and has the disk work on what is written while more
// comes, or is hashed. Its methods are for one goroutine.
type writeback struct {
	file   *os.File
	size   int64
	begun  bool  // the disk is at work on what was written
	synced int64 // how much of it a sync that began is for
	ended  bool  // a sync of all of it began

	running sync.WaitGroup
	busy    atomic.Bool // with a sync that is not the last one

	mu  sync.Mutex
	err error // of any sync: the system reports a failed write once
}

// syncEvery is how many bytes are worth a sync of their own, where the disk
// cannot be set to work otherwise.
const syncEvery = 2 << 20

func (w *writeback) write(block []byte) error {
	n, err := w.file.Write(block)
	w.begun = startWriteback(w.file, w.size, int64(n))
	w.size += int64(n)
	if !w.begun && w.size-w.synced >= syncEvery && w.busy.CompareAndSwap(false, true) {
		w.synced = w.size
		w.running.Go(func() {
			defer w.busy.Store(false)
			w.sync()
		})
	}
	return err
}

// end sets the disk to work on what was written, if it is not yet; wait does the
// rest.
func (w *writeback) end() {
	if w.size > 0 && !w.begun {
		w.ended = true
		w.running.Go(w.sync)
	}
}

// changed says that there is more for wait to make durable than what was
// written before end.
func (w *writeback) changed() { w.ended = false }

// wait makes durable what was written. A second time it returns the same.
func (w *writeback) wait() error {
	if !w.ended {
		w.ended = true
		w.sync()
	}
	w.running.Wait()
	return w.err
}

func (w *writeback) sync() {
	if err := w.file.Sync(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = errors.Join(w.err, err)
	}
}

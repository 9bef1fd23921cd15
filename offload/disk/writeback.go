package disk

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
)

// writeback writes a file and starts to flush what was written while the caller
// produces more. Its methods are for one goroutine.
type writeback struct {
	file   *os.File
	size   int64
	synced int64 // up to where a sync was started

	running sync.WaitGroup
	busy    atomic.Bool // a sync is running

	mu  sync.Mutex
	err error // of any sync: the system reports a failed write once
}

// syncEvery is how many bytes are worth an early sync, on systems without
// startWriteback.
const syncEvery = 2 << 20

func (w *writeback) write(block []byte) error {
	n, err := w.file.Write(block)
	started := startWriteback(w.file, w.size, int64(n))
	w.size += int64(n)
	if !started && w.size-w.synced >= syncEvery && w.busy.CompareAndSwap(false, true) {
		w.synced = w.size
		w.running.Go(func() {
			defer w.busy.Store(false)
			w.sync()
		})
	}
	return err
}

// wait makes the file durable. It returns the error of any sync.
func (w *writeback) wait() error {
	w.sync()
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

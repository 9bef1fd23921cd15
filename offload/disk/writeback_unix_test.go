//go:build unix

package disk

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/index"
)

// TestWritebackFailedSync: wait returns the error of every sync, including an early
// one. A pipe cannot be synced.
func TestWritebackFailedSync(t *testing.T) {
	for _, blocks := range []int{0, 1, 2, 3 * syncEvery / index.BlockSize} {
		r, f, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var drain sync.WaitGroup
		drain.Go(func() { io.Copy(io.Discard, r) })
		w := &writeback{file: f}
		for range blocks {
			if err := w.write(make([]byte, index.BlockSize)); err != nil {
				t.Fatal(err)
			}
		}
		w.running.Wait()
		if early := blocks*index.BlockSize > syncEvery; early != (w.err != nil) {
			t.Errorf("%d blocks, before the end: %v", blocks, w.err)
		}
		for range 2 {
			if err := w.wait(); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%d blocks: %v, want EINVAL", blocks, err)
			}
		}
		f.Close()
		drain.Wait()
		r.Close()
	}
}

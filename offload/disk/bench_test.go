package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/internal/benchtest"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

func BenchmarkPut(b *testing.B) {
	for _, c := range benchtest.Sizes {
		b.Run("disk/"+c.Name, func(b *testing.B) { benchDiskPut(b, c.Size) })
	}
}

func benchDiskPut(b *testing.B, size int) {
	dir := b.TempDir()
	s, err := Open(filepath.Join(dir, "store"), offload.StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 20 * lockCount { // the first use of a lock creates its file
		unlock, err := s.now.dir.lock(context.Background(), fmt.Sprint(i))
		if err != nil {
			b.Fatal(err)
		}
		unlock()
	}
	data := benchtest.Log(size)
	ours := func(n int) {
		if _, err := s.Put(context.Background(), storetest.NewRecord("s", fmt.Sprint("a", n+1)), bytes.NewReader(benchtest.Unique(data, n)), nil); err != nil {
			b.Fatal(err)
		}
	}
	bare := func(n int) {
		if err := bareWrite(dir, fmt.Sprint("a", n), benchtest.Unique(data, n)); err != nil {
			b.Fatal(err)
		}
	}
	// As durable as a Put: a content and a record file.
	pair := func(n int) {
		if err := bareWrite(dir, fmt.Sprint("p", n), benchtest.Unique(data, n), make([]byte, 600)); err != nil {
			b.Fatal(err)
		}
	}
	benchtest.Race(b, []string{"ours", "bare", "pair"}, ours, bare, pair)
}

// bareWrite makes files of a directory durable with the fewest system calls.
func bareWrite(dir, name string, contents ...[]byte) error {
	for i, data := range contents {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(name, ".", i, ".tmp")))
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	for i := range contents {
		final := filepath.Join(dir, fmt.Sprint(name, ".", i))
		if err := os.Rename(final+".tmp", final); err != nil {
			return err
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// fewRecords is the context of a process that ends after a sweep has looked at some records.
type fewRecords struct {
	context.Context
	left int
}

func (c *fewRecords) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Processes that end before their sweeps do remove what has expired all the same, one after the other.
func TestSweepsThatEndEarly(t *testing.T) {
	t.Parallel()
	const records = 12
	dir, clock := t.TempDir(), &storetest.Clock{}
	s := openTest(t, dir, offload.StoreConfig{Now: clock.Now})
	for i := range records {
		storetest.Put(t, s, storetest.NewRecord(fmt.Sprint("s", i%3), fmt.Sprint(i)), []byte(fmt.Sprint("content ", i/2)))
	}
	clock.Advance(8 * 24 * time.Hour)
	stored := func() int {
		blobs, err := os.ReadDir(filepath.Join(dir, blobDir))
		if err != nil {
			t.Fatal(err)
		}
		return len(blobs)
	}
	if stored() != records/2 {
		t.Fatalf("%d contents", stored())
	}
	for range 60 {
		_, _ = s.Sweep(&fewRecords{t.Context(), 3}, time.Hour)
	}
	if n := stored(); n > 0 {
		t.Errorf("%d of %d contents are left", n, records/2)
	}
}

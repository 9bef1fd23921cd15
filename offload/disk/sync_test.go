package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// When Put returns, the directory of the session was synced with all its names, and so was
// its parent if the directory is new. If that fails, so does the Put.
func TestDiskPutSyncsTheDirectory(t *testing.T) {
	t.Parallel()
	for _, links := range []bool{true, false} {
		s := openTest(t, t.TempDir(), offload.StoreConfig{})
		s.now.links = links
		// names returns the files of the session.
		names := func() (all []string) {
			entries, err := s.now.dir.list("s")
			if err != nil {
				t.Error(err)
			}
			for _, e := range entries {
				all = append(all, e.Name())
			}
			slices.Sort(all)
			return all
		}
		var mu sync.Mutex   // Put syncs the content and the record at the same time
		var synced []string // the files of the session at its last sync
		parent := false
		s.now.dir.Hook = func(op durable.Operation, do func() error) error {
			mu.Lock()
			if op.Kind == "sync dir" && op.Name == "s" {
				synced = names()
			}
			parent = parent || op.Kind == "sync dir" && op.Name == "."
			mu.Unlock()
			return do()
		}
		// The second content has the blob of the first. The last id exists.
		for i, data := range []string{"new", "new", "another", "new"} {
			synced = nil
			storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("id", i%3)), []byte(data))
			if now := names(); !slices.Equal(now, synced) || len(now) == 0 {
				t.Errorf("links %v, put %d: the directory has %q, at its last sync %q", links, i, now, synced)
			}
		}
		if !parent {
			t.Errorf("links %v: the parent of the new directory was not synced", links)
		}
		s.now.dir.Hook = func(op durable.Operation, do func() error) error {
			if op.Kind == "sync dir" && op.Name == "s" {
				return os.ErrPermission
			}
			return do()
		}
		if _, err := s.Put(t.Context(), storetest.NewRecord("s", "fails"), bytes.NewReader([]byte("text")), nil); !errors.Is(err, os.ErrPermission) {
			t.Errorf("links %v: the sync failed, but Put returned %v", links, err)
		}
	}
}

package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestReadOnlyDisk: a store is readable where it can make neither temporary files nor locks.
func TestReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	data := storetest.Text(10, 60)
	rec := storetest.Put(t, openTest(t, dir, offload.StoreConfig{}), storetest.NewRecord("sess", "call_1"), data)
	for _, name := range []string{tempDir, lockDir} { // a file in the place of a directory also fails for root
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	s := openTest(t, dir, offload.StoreConfig{})
	if _, err := s.Get(t.Context(), "sess", "call_1"); err != nil {
		t.Error(err)
	}
	storetest.CheckContent(t, s, rec, data)
}

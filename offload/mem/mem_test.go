package mem

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var s *Store
		return storetest.Harness{
			Open:     func(t *testing.T, cfg offload.StoreConfig) offload.Store { s = New(cfg); return s },
			Stored:   func(t *testing.T) int { return len(s.blobs) },
			Volatile: true,
		}
	})
}

// TestCopy: a copy of a content is checked against its digest.
func TestCopy(t *testing.T) {
	s := New(offload.StoreConfig{})
	data := storetest.Text(7*index.BlockSize+1, 20)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	c, err := s.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b bytes.Buffer
	if err := offload.Copy(&b, c, out.Digest); err != nil || !bytes.Equal(b.Bytes(), data) {
		t.Errorf("copy: %d bytes, %v", b.Len(), err)
	}
	if err := offload.Copy(io.Discard, c, "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, offload.ErrCorrupt) {
		t.Errorf("copy with another digest: %v, want ErrCorrupt", err)
	}
}

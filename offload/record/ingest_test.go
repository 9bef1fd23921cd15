package record_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

func TestShortReads(t *testing.T) {
	s := mem.New(offload.StoreConfig{})
	data := storetest.Text(3*index.BlockSize+11, 8)
	for name, src := range map[string]io.Reader{
		"half":     iotest.HalfReader(bytes.NewReader(data)),
		"one":      iotest.OneByteReader(bytes.NewReader(data)),
		"data-err": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		out, err := s.Put(t.Context(), storetest.NewRecord("s", name), src, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		storetest.CheckContent(t, s, out, data)
	}
	if _, err := s.Put(t.Context(), storetest.NewRecord("s", "idle"), idleReader{}, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that returns nothing: %v, want ErrNoProgress", err)
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

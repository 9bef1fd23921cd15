package offload

import (
	"strings"
	"testing"
)

func TestTokensOfRunes(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 1, 5: 2, 6: 3, 20_000: 8_000, 20_001: 8_001} {
		if got := TokensOfRunes(n); got != want {
			t.Errorf("TokensOfRunes(%d) is %d, want %d", n, got, want)
		}
	}
}

// countingReader counts the bytes that are read.
type countingReader struct {
	*strings.Reader
	n int
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.Reader.ReadAt(p, off)
	r.n += n
	return n, err
}

func TestExceedsCountsWholeRunesAndStopsEarly(t *testing.T) {
	for _, r := range []string{"x", "é", "漢", "😀", "\xff"} {
		n := int64(countBlock/len(r)/5*5 + 5) // ends in a second block, the first cuts a rune
		text := strings.Repeat(r, int(n))
		tokens := n / 5 * 2
		for limit, want := range map[int64]bool{tokens - 1: true, tokens: false} {
			got, err := exceeds(strings.NewReader(text), int64(len(text)), limit)
			if err != nil || got != want {
				t.Errorf("%d times %q exceeds %d tokens: %v, %v; want %v", n, r, limit, got, err, want)
			}
		}
	}
	src := &countingReader{Reader: strings.NewReader(strings.Repeat("x", 10*countBlock))}
	if got, err := exceeds(src, src.Size(), 10); err != nil || !got || src.n != countBlock {
		t.Errorf("exceeds is %v, %v, after %d bytes, want after one block", got, err, src.n)
	}
	if _, err := exceeds(strings.NewReader("short"), 10, 1); err == nil {
		t.Error("a source that is shorter than it says is no error")
	}
}

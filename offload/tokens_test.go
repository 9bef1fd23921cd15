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

// seenCounter counts runes and records the texts.
type seenCounter struct{ seen *int }

func (c seenCounter) Count(text string) int64 {
	*c.seen += len(text)
	return int64(len([]rune(text)))
}

func TestExceedsCountsWholeRunesAndStopsEarly(t *testing.T) {
	for _, r := range []string{"x", "é", "漢", "😀", "\xff"} {
		n := int64(countBlock/len(r) + 3) // ends in a second block, the first cuts a rune
		text := strings.Repeat(r, int(n))
		for limit, want := range map[int64]bool{n - 1: true, n: false} {
			seen := 0
			got, err := exceeds(seenCounter{&seen}, strings.NewReader(text), int64(len(text)), limit)
			if err != nil || got != want || seen != len(text) {
				t.Errorf("%d times %q exceeds %d: %v, %v, after %d bytes; want %v", n, r, limit, got, err, seen, want)
			}
		}
	}
	seen := 0
	text := strings.Repeat("x", 10*countBlock)
	if got, err := exceeds(seenCounter{&seen}, strings.NewReader(text), int64(len(text)), 10); err != nil || !got || seen != countBlock {
		t.Errorf("exceeds is %v, %v, after %d bytes, want after one block", got, err, seen)
	}
	if _, err := exceeds(RuneCounter{}, strings.NewReader("short"), 10, 1000); err == nil {
		t.Error("a source that is shorter than it says is no error")
	}
}

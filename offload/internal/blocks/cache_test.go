package blocks

import "testing"

// The cache holds the values that were used last.
func TestCacheIsBounded(t *testing.T) {
	var c Cache[int, string]
	const added = cacheSize + 3
	for i := range added {
		c.Add(i, "old")
		c.Add(i, "new")
		if v, ok := c.Get(0); v != "new" || !ok { // used in every round
			t.Fatalf("the first was forgotten after %d, or is %q", i, v)
		}
	}
	for i := range added {
		want := i == 0 || i > added-cacheSize
		if v, ok := c.Get(i); ok != want || ok && v != "new" {
			t.Errorf("value %d is %q, remembered: %v, want %v", i, v, ok, want)
		}
	}
}

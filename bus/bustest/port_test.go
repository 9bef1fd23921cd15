package bustest

import "testing"

// Nobody listens on these ports yet, and none is returned twice. With a thousand of 20,000
// ports, chance alone would repeat one.
func TestFreePortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 1000 {
		port := FreePort(t)
		if seen[port] {
			t.Fatalf("port %d was returned twice", port)
		}
		seen[port] = true
	}
}

package process

import "testing"

// A result that is not offloaded fits a message of the server.
func TestMaxResult(t *testing.T) {
	for payload, want := range map[int64]int{1 << 20: 512 << 10, 8 << 20: 512 << 10, 64 << 10: 48 << 10, 1 << 10: 768} {
		if got := maxResult(payload); got != want {
			t.Errorf("%d for a max_payload of %d, want %d", got, payload, want)
		}
	}
}

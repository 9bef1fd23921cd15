package artifacts

import "testing"

func TestGetsLinks(t *testing.T) {
	for _, tt := range []struct {
		client, version string
		want            bool
	}{
		{"x", "2025-06-18", true}, {"x", "", true}, {"x", "2025-03-26", false}, {"@langchain/mcp-adapters", "2025-11-25", false},
	} {
		if got := GetsLinks(tt.client, tt.version); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

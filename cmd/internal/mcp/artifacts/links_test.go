package artifacts

import "testing"

func TestLinks(t *testing.T) {
	for _, tt := range []struct {
		links           Links
		client, version string
		want            bool
	}{
		{"", "x", "2025-06-18", true}, {"auto", "x", "", true}, {"", "x", "2025-03-26", false},
		{"", "@langchain/mcp-adapters", "2025-11-25", false}, {"on", "@langchain/mcp-adapters", "2025-03-26", true}, {"off", "x", "", false},
	} {
		if got := tt.links.For(tt.client, tt.version); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	var l Links
	if err := l.Set("sometimes"); err == nil || l.String() != "auto" {
		t.Errorf("%v %v", err, l)
	}
}

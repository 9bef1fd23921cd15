package hosts

import (
	"strings"
	"testing"
)

// A file that takes long to check is refused, with its size.
func TestLargeTOMLIsRefused(t *testing.T) {
	if _, err := parseTOML([]byte(strings.Repeat("# a comment of a person\n", maxTOML/24))); err != nil {
		t.Errorf("a file of the maximum: %v", err)
	}
	if _, err := parseTOML([]byte(strings.Repeat("[a]\n", maxTOML))); err == nil || !strings.Contains(err.Error(), "1048576 bytes, and at most 262144 are read") {
		t.Errorf("a file above it: %v", err)
	}
}

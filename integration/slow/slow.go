// Package slow marks the tests that "go test ./..." leaves out, so that it takes some minutes only: those that take
// seconds of the processor, and many of those with clusters, browsers and coding hosts. "make test-all" runs them too.
package slow

import (
	"os"
	"testing"
)

// Run says whether slow tests run: the environment variable STEVEDORE_SLOW has a value.
func Run() bool { return os.Getenv("STEVEDORE_SLOW") != "" }

// Test skips a test that is slow, unless Run.
func Test(t testing.TB) {
	t.Helper()
	if !Run() {
		t.Skip(`slow: "make test-all" or STEVEDORE_SLOW=1 runs it`)
	}
}

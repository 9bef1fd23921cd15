// Package slow marks the tests that "go test ./..." leaves out to be done in some minutes: those that take
// seconds of the processor, or that repeat on a cluster, in another host or in a browser what a faster test
// checks. "make test-all" runs them too.
package slow

import (
	"os"
	"testing"
)

// Run says whether slow tests run: the environment variable STEVEDORE_SLOW is set.
func Run() bool { return os.Getenv("STEVEDORE_SLOW") != "" }

// Test skips a test that is slow, unless Run.
func Test(t testing.TB) {
	t.Helper()
	if !Run() {
		t.Skip(`slow: "make test-all" or STEVEDORE_SLOW=1 runs it`)
	}
}

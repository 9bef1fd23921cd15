// Package slow marks the tests that "go test ./..." leaves out, so that it takes some minutes only: those that take
// seconds of the processor, and many of those with clusters, browsers and coding hosts. "make test-all" runs them too.
// It also runs more of the tests that wait at once.
package slow

import (
	"flag"
	"os"
	"testing"
)

// Run says whether slow tests run: the environment variable STEVEDORE_SLOW has a value.
func Run() bool { return os.Getenv("STEVEDORE_SLOW") != "" }

// RunWaiting is m.Run for packages whose parallel tests mostly wait: for leases, timeouts
// and other processes. It runs more of them at once than there are processors.
func RunWaiting(m *testing.M) int {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("6") // a number is valid
	}
	return m.Run()
}

// Test skips a test that is slow, unless Run.
func Test(t testing.TB) {
	t.Helper()
	if !Run() {
		t.Skip(`slow: "make test-all" or STEVEDORE_SLOW=1 runs it`)
	}
}

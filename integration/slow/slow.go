// Package slow marks the tests that "go test ./..." leaves out, so that it takes some minutes only: those that take
// seconds of the processor, and many of those with clusters, browsers and coding hosts. "make test-all" runs them too.
// It also runs more of the tests that wait at once.
package slow

import (
	"flag"
	"net/http"
	"os"
	"strconv"
	"testing"
)

// Run says whether slow tests run: the environment variable STEVEDORE_SLOW has a value.
func Run() bool { return os.Getenv("STEVEDORE_SLOW") != "" }

// RunWaiting is m.Run for packages whose parallel tests mostly wait: for leases, timeouts
// and other processes. It runs more of them at once than there are processors.
func RunWaiting(m *testing.M) int { return RunAtOnce(m, 6) }

// RunAtOnce is m.Run with so many parallel tests at once, unless the command line has a number. http.DefaultClient then
// has a transport of its own: httptest.Server.Close closes the idle connections of http.DefaultTransport, also those of
// other tests, which lose a request that begins at that moment.
func RunAtOnce(m *testing.M, tests int) int {
	http.DefaultClient = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // a number is valid
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

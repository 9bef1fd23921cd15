//go:build !linux

package modes

import (
	"os"
	"testing"
)

// Obey skips the test if root runs it.
func Obey(t testing.TB) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("the modes of files do not count for root")
	}
}

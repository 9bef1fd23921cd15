package modes

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Obey lets the modes of files count for the rest of a test. It holds for the thread of the test, which ends with it.
func Obey(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	header, sets := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	err := unix.Capget(&header, &sets[0])
	if err == nil {
		sets[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
		err = unix.Capset(&header, &sets[0])
	}
	if err != nil {
		t.Fatal(err)
	}
}

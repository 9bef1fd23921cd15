package enter

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock is called here directly: go-landlock confines all threads of the process through
// /proc/PID/task (in a program with cgo), which in a PID namespace with the /proc of the host
// are the threads of another process. This process needs only one thread confined.

const (
	// Read is the right to read and to execute.
	Read = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// Write is the right to do everything.
	Write = 1<<16 - 1
	// UseDevice is the right to use a device file.
	UseDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// OfFiles are the rights that a rule of a file can have.
	OfFiles = UseDevice | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled returns the rights that the ABI knows.
func handled(abi int) uint64 {
	rights := uint64(Write)
	if abi < 5 {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi < 3 {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 2 {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	return rights
}

// ABI returns the version of Landlock in the kernel, 0 if it has none.
func ABI() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// landlock confines this thread to the rules of the spec. It skips paths that do not
// exist.
func landlock(s *Spec) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(s.Landlock)}
	size := unsafe.Offsetof(attr.Handled_access_net)
	if s.Landlock >= 4 {
		size = unsafe.Offsetof(attr.Scoped)
		if s.DenyTCP {
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if s.Landlock >= 6 {
		size = unsafe.Offsetof(attr.Quiet_access_fs)
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	must("create the Landlock rules", errnoErr(errno))
	for _, r := range s.Rules {
		must("allow "+r.Path, addRule(ruleset, r.Path, r.Access&attr.Handled_access_fs))
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0)
	must("enforce the Landlock rules", errnoErr(errno))
	_ = unix.Close(int(ruleset))
}

func addRule(ruleset uintptr, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(fd)
	add := func(access uint64) error {
		attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
		return errnoErr(errno)
	}
	err = add(access)
	if err == unix.EINVAL && access&^OfFiles != 0 { // it was a directory when the rule was made
		err = add(access & OfFiles)
	}
	return err
}

func errnoErr(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

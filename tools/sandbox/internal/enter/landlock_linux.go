package enter

import (
	"syscall"
	"unsafe"
)

// The numbers of system calls above 423 are the same on all architectures.
const (
	sysOpenTree              = 428
	sysMoveMount             = 429
	sysCloseRange            = 436
	sysMountSetattr          = 442
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446
)

// Rights of Landlock (linux/landlock.h).
const (
	Execute   = 1 << 0
	WriteFile = 1 << 1
	ReadFile  = 1 << 2
	ReadDir   = 1 << 3
	refer     = 1 << 13
	truncate  = 1 << 14
	ioctlDev  = 1 << 15

	// Read is the right to read and to execute.
	Read = Execute | ReadFile | ReadDir
	// Write is the right to do everything.
	Write = 1<<16 - 1
	// UseDevice is the right to use a device file.
	UseDevice = ReadFile | WriteFile | ioctlDev

	// OfFiles are the rights that a rule of a file can have.
	OfFiles = Execute | WriteFile | ReadFile | truncate | ioctlDev
)

// handled returns the rights that the ABI knows.
func handled(abi uint64) uint64 {
	switch {
	case abi >= 5:
		return Write
	case abi >= 3:
		return Write &^ ioctlDev
	case abi == 2:
		return Write &^ (ioctlDev | truncate)
	}
	return Write &^ (ioctlDev | truncate | refer)
}

// ABI returns the version of Landlock in the kernel, 0 if it has none.
func ABI() uint64 {
	version, _, errno := syscall.RawSyscall(sysLandlockCreateRuleset, 0, 0, 1)
	if errno != 0 {
		return 0
	}
	return uint64(version)
}

// landlock confines this thread to the rules of the spec. It skips paths that do not
// exist.
func landlock(s *Spec) {
	attr := struct{ fs, net, scoped uint64 }{fs: handled(s.Landlock)}
	size := unsafe.Sizeof(attr.fs)
	if s.Landlock >= 4 {
		size = 2 * unsafe.Sizeof(attr.fs)
		if s.DenyTCP {
			attr.net = 1<<0 | 1<<1 // bind, connect
		}
	}
	if s.Landlock >= 6 {
		size = unsafe.Sizeof(attr)
		attr.scoped = 1<<0 | 1<<1 // abstract sockets, signals
	}
	ruleset, _, errno := syscall.RawSyscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), size, 0)
	must("create the Landlock rules", errnoErr(errno))
	for _, r := range s.Rules {
		must("allow "+r.Path, addRule(ruleset, r, attr.fs))
	}
	_, _, errno = syscall.RawSyscall(sysLandlockRestrictSelf, ruleset, 0, 0)
	must("enforce the Landlock rules", errnoErr(errno))
	_ = syscall.Close(int(ruleset))
}

const oPath = 0x200000

func addRule(ruleset uintptr, r Rule, known uint64) error {
	fd, err := syscall.Open(r.Path, oPath|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.EACCES {
		return nil
	} else if err != nil {
		return err
	}
	defer syscall.Close(fd)
	attr := struct { // packed: the kernel reads 12 bytes
		access uint64
		parent int32
	}{r.Access & known, int32(fd)}
	_, _, errno := syscall.RawSyscall6(sysLandlockAddRule, ruleset, 1, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno == syscall.EINVAL && attr.access&^OfFiles != 0 { // it was a directory when the rule was made
		attr.access &= OfFiles
		_, _, errno = syscall.RawSyscall6(sysLandlockAddRule, ruleset, 1, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	}
	return errnoErr(errno)
}

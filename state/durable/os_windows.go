package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// syncDir does nothing: Windows has no fsync of a directory, and NTFS journals
// its renames.
func syncDir(openFunc, string) error { return nil }

// lockedRange is one byte far beyond the content. Locks are mandatory on Windows;
// the content stays readable.
func lockedRange() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 0x7fff_ffff} }

// TryLock takes the lock of f and reports false if another process, or another
// opening of the file, has it. The lock ends with the handle and so with the
// process.
func TryLock(f *os.File) (bool, error) { return tryLock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// tryShared is TryLock for a lock that several may have together, but not beside that of TryLock.
func tryShared(f *os.File) (bool, error) { return tryLock(f, 0) }

func tryLock(f *os.File, kind uint32) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), kind|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, lockedRange())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}

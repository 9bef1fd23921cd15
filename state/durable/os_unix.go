//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// syncDir makes the entries of a directory durable. Some file systems answer
// EINVAL because they have nothing to sync.
func syncDir(open openFunc, name string) error {
	d, err := open(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	if err = d.Sync(); errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// TryLock takes the advisory lock of f and reports false if another process, or
// another opening of the file, has it. The lock ends with the descriptor and so
// with the process.
func TryLock(f *os.File) (bool, error) { return tryLock(f, syscall.LOCK_EX) }

// tryShared is TryLock for a lock that several may have together, but not beside that of TryLock.
func tryShared(f *os.File) (bool, error) { return tryLock(f, syscall.LOCK_SH) }

func tryLock(f *os.File, kind int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), kind|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}

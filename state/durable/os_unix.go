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
func TryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
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

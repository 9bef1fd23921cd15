//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// flock takes the lock of an open file, against other processes and against
// other openings of it in this one. It goes with the file, so a process that
// dies holds nothing. funlock gives it back.
func flock(ctx context.Context, f *os.File) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %q, which another process holds: %w", f.Name(), ctx.Err())
		case <-time.After(wait):
		}
	}
}

func funlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// noFollow keeps a link or a pipe, put where a file should be, from being
// followed or waited for.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isDiskFull reports whether err says that there is no room for the bytes.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// cannotLink reports whether err says that the file system has no hard links,
// or no more of them for this file.
func cannotLink(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS, syscall.EMLINK, syscall.EXDEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

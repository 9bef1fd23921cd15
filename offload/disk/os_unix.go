//go:build unix

package disk

import (
	"errors"
	"slices"
	"syscall"
)

// noFollow prevents that open follows a symbolic link or waits for a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isDiskFull reports whether err says that the disk has no space.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// cannotLink reports whether err says that the file system has no hard links, or
// no more of them for this file.
func cannotLink(err error) bool {
	reasons := []error{syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS, syscall.EMLINK, syscall.EXDEV}
	return slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) })
}

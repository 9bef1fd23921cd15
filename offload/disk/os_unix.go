//go:build unix

package disk

import (
	"errors"
	"io/fs"
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

// links returns how many names a file has, 0 if the system does not say.
func links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 0
}

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package offload

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openAt opens a file in an open directory, and never a link.
func openAt(dir *os.File, name string, flag int, mode fs.FileMode) (f *os.File, err error) {
	failed := withFd(dir, func(at int) {
		fd := 0
		for {
			fd, err = unix.Openat(at, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode.Perm()))
			if err != unix.EINTR {
				break
			}
		}
		if err == nil {
			f = os.NewFile(uintptr(fd), dir.Name()+"/"+name)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

func renameAt(from *os.File, name string, to *os.File, as string) error {
	return between(from, name, to, as, "rename", unix.Renameat)
}

func linkAt(from *os.File, name string, to *os.File, as string) error {
	return between(from, name, to, as, "link", func(from int, name string, to int, as string) error {
		return unix.Linkat(from, name, to, as, 0)
	})
}

func between(from *os.File, name string, to *os.File, as, op string, do func(int, string, int, string) error) (err error) {
	failed := withFd(from, func(a int) {
		closed := withFd(to, func(b int) { err = do(a, name, b, as) })
		err = errors.Join(closed, err)
	})
	if err = errors.Join(failed, err); err != nil {
		return &os.LinkError{Op: op, Old: name, New: as, Err: err}
	}
	return nil
}

// withFd calls f with the descriptor of a directory, which a Close waits for:
// its number does not become that of another file meanwhile.
func withFd(dir *os.File, f func(fd int)) error {
	c, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	if c.Control(func(fd uintptr) { f(int(fd)) }) != nil {
		return os.ErrClosed
	}
	return nil
}

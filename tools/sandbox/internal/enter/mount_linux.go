package enter

import (
	"syscall"
	"unsafe"
)

const (
	openTreeClone = 1
	atFDCWD       = ^uintptr(99) // -100
	atEmptyPath   = 0x1000
	atRecursive   = 0x8000
	moveEmptyPath = 4

	attrReadOnly = 0x1
	attrNoSUID   = 0x2
	attrNoDev    = 0x4
)

// mounts builds a root directory that contains only the mounts of the spec, and enters
// it. What is not in it does not exist for the command: no sockets, no other files.
//
//  1. Copy the mounts into a new namespace; nothing that this process mounts reaches others.
//  2. Clone each source, before the new root hides it.
//  3. Attach the clones to an empty file system.
//  4. Replace the root, and detach the old one.
//  5. Make read-only what must not change.
func mounts(s *Spec) {
	must("enter a mount namespace", syscall.Unshare(syscall.CLONE_NEWNS))
	must("make mounts private", syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	clones := make([]int, len(s.Mount))
	links := make([]string, len(s.Mount))
	for i, m := range s.Mount {
		clones[i] = -1
		switch m.Kind {
		case ReadOnly, Writable, Device:
			clones[i], links[i] = clone(m)
		}
	}
	root := s.Base
	must("mount the root", syscall.Mount("tmpfs", root, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755,size=1m"))
	readOnly := []string{}
	for i, m := range s.Mount {
		at := root + m.Path
		switch {
		case links[i] != "":
			makeDir(parent(at))
			_ = syscall.Symlink(links[i], at)
		case clones[i] >= 0:
			makePoint(at, clones[i])
			must("mount "+m.Path, move(clones[i], at))
		case m.Kind == Empty:
			makeDir(at)
			must("hide "+m.Path, syscall.Mount("tmpfs", at, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755,size=1m"))
			readOnly = append(readOnly, m.Path)
		case m.Kind == Scratch:
			makeDir(at)
			must("mount "+m.Path, syscall.Mount("tmpfs", at, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,size=256m"))
		case m.Kind == SealedIn || m.Kind == Pinned:
			seal(at, m)
		}
	}
	proc(s, root+"/proc")
	makeDir(root + "/var")
	for _, link := range [][2]string{
		{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"},
		{"/proc/self/fd/2", "/dev/stderr"}, {"urandom", "/dev/random"}, {"/tmp", "/var/tmp"},
	} {
		_ = syscall.Symlink(link[0], root+link[1])
	}
	must("enter the root", syscall.Chdir(root))
	must("replace the root", syscall.PivotRoot(".", "."))
	must("detach the old root", syscall.Unmount(".", syscall.MNT_DETACH))
	must("enter the root", syscall.Chdir("/"))
	for _, path := range append(readOnly, "/") {
		must("make "+path+" read-only", setattr(atFDCWD, path, attrReadOnly, 0))
	}
}

// clone returns a copy of the mount, which is not attached, or the target of a symbolic
// link. A source that does not exist gives neither.
func clone(m Mount) (fd int, link string) {
	from := m.From
	if from == "" {
		from = m.Path
		var buf [4096]byte
		if n, err := syscall.Readlink(from, buf[:]); err == nil && m.Kind == ReadOnly {
			return -1, string(buf[:n])
		}
	}
	n, errno := openTree(from)
	if errno == syscall.ENOENT || errno == syscall.EACCES || errno == syscall.ENOTDIR {
		if m.Kind == Writable {
			fail("mount "+from, errno)
		}
		return -1, ""
	}
	must("mount "+from, errnoErr(errno))
	attr := uintptr(attrNoSUID)
	switch m.Kind {
	case ReadOnly:
		attr |= attrReadOnly | attrNoDev
	case Writable:
		attr |= attrNoDev
	case Device: // read-only protects its mode; a device can be written all the same
		attr |= attrReadOnly
	}
	must("protect "+from, setattr(n, "", attr, atEmptyPath|atRecursive))
	return int(n), ""
}

// seal mounts a path on itself, so that it can be neither renamed nor removed, and makes it
// read-only. It skips a path that does not exist.
func seal(at string, m Mount) {
	fd, errno := openTree(at)
	if errno == syscall.ENOENT || errno == syscall.ENOTDIR {
		return
	}
	must("protect "+m.Path, errnoErr(errno))
	if m.Kind == SealedIn {
		must("protect "+m.Path, setattr(fd, "", attrReadOnly, atEmptyPath|atRecursive))
	}
	must("protect "+m.Path, move(int(fd), at))
}

func openTree(path string) (uintptr, syscall.Errno) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return 0, syscall.EINVAL
	}
	fd, _, errno := syscall.RawSyscall(sysOpenTree, atFDCWD, uintptr(unsafe.Pointer(p)), openTreeClone|syscall.O_CLOEXEC|atRecursive|0x100) // AT_SYMLINK_NOFOLLOW
	return fd, errno
}

func move(fd int, at string) error {
	empty := byte(0)
	p, err := syscall.BytePtrFromString(at)
	if err != nil {
		return err
	}
	_, _, errno := syscall.RawSyscall6(sysMoveMount, uintptr(fd), uintptr(unsafe.Pointer(&empty)), atFDCWD, uintptr(unsafe.Pointer(p)), moveEmptyPath, 0)
	_ = syscall.Close(fd)
	return errnoErr(errno)
}

func setattr(fd uintptr, path string, set, flags uintptr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attr := struct{ set, clear, propagation, userns uint64 }{set: uint64(set)}
	_, _, errno := syscall.RawSyscall6(sysMountSetattr, fd, uintptr(unsafe.Pointer(p)), flags, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	return errnoErr(errno)
}

// proc mounts /proc of the new PID namespace, or, if the kernel refuses that in a
// container, the one of the host.
func proc(s *Spec, at string) {
	makeDir(at)
	if !s.FreshProc {
		fd, errno := openTree("/proc")
		must("mount /proc", errnoErr(errno))
		must("mount /proc", setattr(fd, "", attrReadOnly|attrNoSUID|attrNoDev, atEmptyPath|atRecursive))
		must("mount /proc", move(int(fd), at))
		return
	}
	must("mount /proc", syscall.Mount("proc", at, "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""))
	if s.PIDMax > 0 {
		must("limit the processes", writeFile(at+"/sys/kernel/pid_max", decimal(s.PIDMax)))
	}
	must("protect /proc", setattr(atFDCWD, at, attrReadOnly, 0))
}

// makeDir makes a directory and, if necessary, its parents.
func makeDir(path string) {
	if syscall.Mkdir(path, 0o755) == syscall.ENOENT {
		makeDir(parent(path))
		_ = syscall.Mkdir(path, 0o755)
	}
}

func parent(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return "/"
}

// makePoint makes a directory or a file, as the clone is.
func makePoint(path string, clone int) {
	var stat syscall.Stat_t
	must("examine "+path, syscall.Fstat(clone, &stat))
	if stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		makeDir(path)
		return
	}
	makeDir(parent(path))
	if fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600); err == nil {
		_ = syscall.Close(fd)
	}
}

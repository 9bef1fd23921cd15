package enter

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
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
	must("enter a mount namespace", unix.Unshare(unix.CLONE_NEWNS))
	must("make mounts private", unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
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
	must("mount the root", unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"))
	readOnly := []string{}
	for i, m := range s.Mount {
		at := root + m.Path
		switch {
		case links[i] != "":
			makeDir(filepath.Dir(at))
			_ = unix.Symlink(links[i], at)
		case clones[i] >= 0:
			makePoint(at, clones[i])
			must("mount "+m.Path, move(clones[i], at))
		case m.Kind == Empty:
			makeDir(at)
			must("hide "+m.Path, unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"))
			readOnly = append(readOnly, m.Path)
		case m.Kind == Scratch:
			makeDir(at)
			must("mount "+m.Path, unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=256m"))
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
		_ = unix.Symlink(link[0], root+link[1])
	}
	must("enter the root", unix.Chdir(root))
	must("replace the root", unix.PivotRoot(".", "."))
	must("detach the old root", unix.Unmount(".", unix.MNT_DETACH))
	must("enter the root", unix.Chdir("/"))
	for _, path := range append(readOnly, "/") {
		must("make "+path+" read-only", setattr(unix.AT_FDCWD, path, unix.MOUNT_ATTR_RDONLY))
	}
}

// clone returns a copy of the mount, which is not attached, or the target of a symbolic
// link. A source that does not exist gives neither.
func clone(m Mount) (fd int, link string) {
	from := m.From
	if from == "" {
		from = m.Path
		if to, err := os.Readlink(from); err == nil && m.Kind == ReadOnly {
			return -1, to
		}
	}
	fd, err := openTree(from)
	if m.Kind != Writable && (err == unix.ENOENT || err == unix.EACCES || err == unix.ENOTDIR) {
		return -1, ""
	}
	must("mount "+from, err)
	attr := uint64(unix.MOUNT_ATTR_NOSUID)
	switch m.Kind {
	case ReadOnly:
		attr |= unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV
	case Writable:
		attr |= unix.MOUNT_ATTR_NODEV
	case Device: // read-only protects its mode; a device can be written all the same
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	must("protect "+from, setattr(fd, "", attr))
	return fd, ""
}

// seal mounts a path on itself, so that it can be neither renamed nor removed, and makes it
// read-only. It skips a path that does not exist, or that another command moves meanwhile: the end
// of that one finds it.
func seal(at string, m Mount) {
	fd, err := openTree(at)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return
	}
	must("protect "+m.Path, err)
	if m.Kind == SealedIn {
		must("protect "+m.Path, setattr(fd, "", unix.MOUNT_ATTR_RDONLY))
	}
	if err := move(fd, at); err != unix.ENOENT && err != unix.ENOTDIR {
		must("protect "+m.Path, err)
	}
}

func openTree(path string) (int, error) {
	return unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
}

func move(fd int, at string) error {
	defer unix.Close(fd)
	return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// setattr sets attributes of a mount: that at the path, or, if it is empty, those of the tree fd.
func setattr(fd int, path string, set uint64) error {
	flags := uint(0)
	if path == "" {
		flags = unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	}
	return unix.MountSetattr(fd, path, flags, &unix.MountAttr{Attr_set: set})
}

// proc mounts /proc of the new PID namespace, or, if the kernel refuses that in a
// container, the one of the host.
func proc(s *Spec, at string) {
	makeDir(at)
	if !s.FreshProc {
		fd, err := openTree("/proc")
		must("mount /proc", err)
		must("mount /proc", setattr(fd, "", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
		must("mount /proc", move(fd, at))
		return
	}
	must("mount /proc", unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	if s.PIDMax > 0 {
		must("limit the processes", writeFile(at+"/sys/kernel/pid_max", strconv.FormatInt(s.PIDMax, 10)))
	}
	must("protect /proc", setattr(unix.AT_FDCWD, at, unix.MOUNT_ATTR_RDONLY))
}

// makeDir makes a directory and, if necessary, its parents.
func makeDir(path string) { _ = os.MkdirAll(path, 0o755) }

// makePoint makes a directory or a file, as the clone is.
func makePoint(path string, clone int) {
	var stat unix.Stat_t
	must("examine "+path, unix.Fstat(clone, &stat))
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		makeDir(path)
		return
	}
	makeDir(filepath.Dir(path))
	if fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600); err == nil {
		_ = unix.Close(fd)
	}
}

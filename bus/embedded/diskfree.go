//go:build linux || darwin

package embedded

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes this user may still write to the file system of a directory.
// ok is false if the system does not say.
func freeSpace(dir string) (bytes uint64, ok bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, false
	}
	return fs.Bavail * uint64(fs.Bsize), true
}

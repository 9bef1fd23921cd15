//go:build unix

package hosts

import (
	"io/fs"
	"os"
	"syscall"
)

// foreign reports whether the file belongs to another user, who could not read what this
// process would put in its place.
func foreign(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid()
}

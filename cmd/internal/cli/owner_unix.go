//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

func isOwner(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

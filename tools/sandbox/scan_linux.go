package sandbox

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns when the entries or the attributes of a file last changed.
func changeTime(info os.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}

// hasOtherNames reports whether a file has other hard links, through which a command can change it.
func hasOtherNames(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Nlink > 1
}

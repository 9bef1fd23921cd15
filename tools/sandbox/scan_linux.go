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

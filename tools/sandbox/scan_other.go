//go:build !linux

package sandbox

import (
	"os"
	"time"
)

// changeTime is not known, so each scan reads all directories.
func changeTime(os.FileInfo) time.Time { return time.Time{} }

// hasOtherNames reports whether a file has other hard links, which this system does not say.
func hasOtherNames(os.FileInfo) bool { return false }

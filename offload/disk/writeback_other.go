//go:build !linux

package disk

import "os"

// startWriteback reports that only a sync writes to the disk.
func startWriteback(*os.File, int64, int64) bool { return false }

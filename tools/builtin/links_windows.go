package builtin

import "io/fs"

// linkCount would have to open the file to count its names. So hard links are allowed on
// Windows.
func linkCount(fs.FileInfo) uint64 { return 1 }

package builtin

import "io/fs"

// linkCount does not know the number of names of a file: it would have to open it.
func linkCount(fs.FileInfo) uint64 { return 1 }

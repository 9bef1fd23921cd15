//go:build !unix

package cli

import "io/fs"

// isOwner returns true, because each user has a directory for temporary files.
func isOwner(fs.FileInfo) bool { return true }

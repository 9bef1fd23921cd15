//go:build !unix

package disk

import "io/fs"

const noFollow = 0

func isDiskFull(error) bool { return false }

func cannotLink(error) bool { return true }

func links(fs.FileInfo) uint64 { return 0 }

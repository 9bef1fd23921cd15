//go:build !unix

package disk

const noFollow = 0

func isDiskFull(error) bool { return false }

func cannotLink(error) bool { return true }

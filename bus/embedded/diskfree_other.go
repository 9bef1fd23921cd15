//go:build !linux && !darwin

package embedded

// freeSpace does not know. The first write that fails tells.
func freeSpace(string) (bytes uint64, ok bool) { return 0, false }

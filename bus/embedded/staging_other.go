//go:build !linux

package embedded

// memoryDir returns a directory in memory, or "". Only Linux has one.
func memoryDir() string { return "" }

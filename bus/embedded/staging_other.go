//go:build !linux

package embedded

// memoryPath is empty: only Linux has a directory in memory.
const memoryPath = ""

func memoryDir() string { return memoryPath }

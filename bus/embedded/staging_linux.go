package embedded

import "syscall"

const (
	memoryPath = "/dev/shm" // the directory in memory; all users share it
	tmpfsMagic = 0x01021994
	// minMemory is how many bytes must be free. Containers have 64 MiB by default; a batch
	// of a client of the bus has at most 4 MiB.
	minMemory = 32 << 20
)

// memoryDir returns memoryPath if it has enough free memory, otherwise "".
func memoryDir() string {
	var fs syscall.Statfs_t
	if syscall.Statfs(memoryPath, &fs) != nil || fs.Type != tmpfsMagic || fs.Bavail*uint64(fs.Bsize) < minMemory {
		return ""
	}
	return memoryPath
}

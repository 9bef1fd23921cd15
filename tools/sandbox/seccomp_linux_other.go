//go:build linux && !amd64 && !arm64

package sandbox

// auditArch 0 means that we do not know the system calls of this architecture.
const auditArch = 0

var deniedHere []uint32

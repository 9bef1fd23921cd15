package sandbox

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// sockets are families of sockets.
type sockets int

const (
	localSockets    sockets = 1 << iota // AF_UNIX
	internetSockets                     // AF_INET, AF_INET6, and AF_NETLINK, which lists interfaces
)

// denied are system calls that ordinary programs do not need and that could open the
// sandbox, or reach parts of the kernel that had many vulnerabilities. They fail with EPERM.
var denied = append([]uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KCMP,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
}, deniedHere...)

// absent fail with ENOSYS, so that programs fall back to calls that the filter can check:
// it cannot see the arguments of clone3, and io_uring opens sockets by itself.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// Offsets in struct seccomp_data. All supported machines are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
)

// seccompFilter returns the program: 8 bytes per instruction. It is empty if we do not
// know the system calls of this architecture.
func seccompFilter(families sockets) string {
	if auditArch == 0 {
		return ""
	}
	var f filter
	const allow = uint32(unix.SECCOMP_RET_ALLOW)
	refuse := func(errno uint32) uint32 { return unix.SECCOMP_RET_ERRNO | errno }

	f.load(offArch) // another architecture has other numbers
	f.unless(auditArch, refuse(uint32(unix.EPERM)))
	f.load(offNumber)
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, 0x40000000) // the x32 numbers of amd64
	f.ret(refuse(uint32(unix.EPERM)))
	for _, number := range denied {
		f.when(number, refuse(uint32(unix.EPERM)))
	}
	for _, number := range absent {
		f.when(number, refuse(uint32(unix.ENOSYS)))
	}

	var fork filter
	fork.load(offArg0)
	fork.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, newNamespaces)
	fork.ret(refuse(uint32(unix.EPERM)))
	fork.ret(allow)
	f.block(unix.SYS_CLONE, fork)

	var ioctl filter
	ioctl.load(offArg1)
	ioctl.when(unix.TIOCSTI, refuse(uint32(unix.EPERM))) // types into the terminal
	ioctl.when(0x541c, refuse(uint32(unix.EPERM)))       // TIOCLINUX
	ioctl.ret(allow)
	f.block(unix.SYS_IOCTL, ioctl)

	var socket filter
	socket.load(offArg0)
	if families&localSockets != 0 {
		socket.when(unix.AF_UNIX, allow)
	}
	if families&internetSockets != 0 {
		socket.when(unix.AF_INET, allow)
		socket.when(unix.AF_INET6, allow)
		socket.when(unix.AF_NETLINK, allow)
	}
	socket.ret(refuse(uint32(unix.EACCES)))
	f.block(unix.SYS_SOCKET, socket)

	f.ret(allow)
	return f.text.String()
}

// filter is a program of the classic BPF machine.
type filter struct{ text strings.Builder }

func (f *filter) add(code uint16, jumpTrue, jumpFalse uint8, k uint32) {
	var b [8]byte
	binary.LittleEndian.PutUint16(b[:], code)
	b[2], b[3] = jumpTrue, jumpFalse
	binary.LittleEndian.PutUint32(b[4:], k)
	f.text.Write(b[:])
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (f *filter) ret(value uint32)   { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, value) }

// when returns the value if the loaded word is k.
func (f *filter) when(k, value uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, k)
	f.ret(value)
}

// unless returns the value if the loaded word is not k.
func (f *filter) unless(k, value uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, k)
	f.ret(value)
}

// block runs a program, which must end with ret, if the loaded word is k.
func (f *filter) block(k uint32, program filter) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(program.text.Len()/8), k)
	f.text.WriteString(program.text.String())
}

package sandbox

import (
	"slices"
	"strings"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/tools/sandbox/internal/enter"
)

// denied are system calls that ordinary programs do not need and that could open the
// sandbox, or reach parts of the kernel that had many vulnerabilities. They fail with EPERM.
var denied = strings.Fields(`
	mount umount2 pivot_root chroot unshare setns
	open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
	bpf perf_event_open userfaultfd kcmp
	kexec_load kexec_file_load init_module finit_module delete_module reboot
	swapon swapoff settimeofday clock_settime clock_adjtime adjtimex
	acct quotactl quotactl_fd add_key request_key keyctl
	open_by_handle_at name_to_handle_at syslog vhangup
	sethostname setdomainname process_vm_readv process_vm_writev
	fanotify_init lookup_dcookie nfsservctl iopl ioperm modify_ldt uselib`)

// absent fail with ENOSYS, so that programs fall back to calls that the filter can check:
// it cannot see the arguments of clone3 and openat2, and io_uring opens sockets by itself.
var absent = strings.Fields("clone3 openat2 io_uring_setup io_uring_enter io_uring_register")

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

const (
	ioctlTIOCLINUX = 0x541c // which package unix does not have
	openTMPFILE    = 0x400000
	setIDBits      = unix.S_ISUID | unix.S_ISGID
	offArch        = 4 // the offset of the architecture in struct seccomp_data
)

// setID are the calls that can set the bits of a set-user-id file, which gives the account of the
// worker to everyone. They fail with EPERM. A call that creates no file ignores its mode.
var setID = []seccomp.NameWithConditions{
	{Name: "chmod", Conditions: bits(1, setIDBits)}, {Name: "fchmod", Conditions: bits(1, setIDBits)},
	{Name: "fchmodat", Conditions: bits(2, setIDBits)}, {Name: "fchmodat2", Conditions: bits(2, setIDBits)},
	{Name: "mknod", Conditions: bits(1, setIDBits)}, {Name: "mknodat", Conditions: bits(2, setIDBits)},
	{Name: "creat", Conditions: bits(1, setIDBits)},
	{Name: "open", Conditions: append(bits(1, unix.O_CREAT|openTMPFILE), bits(2, setIDBits)...)},
	{Name: "openat", Conditions: append(bits(2, unix.O_CREAT|openTMPFILE), bits(3, setIDBits)...)},
}

// bits is the condition for an argument to have one of the bits.
func bits(argument uint32, mask uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.BitsSet, Value: mask}}
}

// seccompFilter returns the program that lets a command create sockets of the families. It is
// empty if we do not know the system calls of this architecture.
func seccompFilter(families []uint64) []enter.Instruction {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil
	}
	missing := func(name string) bool { _, ok := machine.SyscallNames[name]; return !ok } // on this architecture
	known := func(names []string) []string { return slices.DeleteFunc(slices.Clone(names), missing) }
	checked := slices.DeleteFunc(slices.Clone(setID), func(call seccomp.NameWithConditions) bool { return missing(call.Name) })
	sockets := seccomp.SyscallGroup{Action: errno(unix.EACCES)}
	if len(families) == 0 {
		sockets.Names = []string{"socket"}
	} else {
		var other seccomp.ArgumentConditions
		for _, family := range families {
			other = append(other, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
		}
		sockets.NamesWithCondtions = []seccomp.NameWithConditions{{Name: "socket", Conditions: other}}
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		{Action: errno(unix.EPERM), Names: known(denied), NamesWithCondtions: append(checked,
			seccomp.NameWithConditions{Name: "clone", Conditions: bits(0, newNamespaces)},
			seccomp.NameWithConditions{Name: "ioctl", Conditions: equal32(1, unix.TIOCSTI)}, // types into the terminal
			seccomp.NameWithConditions{Name: "ioctl", Conditions: equal32(1, ioctlTIOCLINUX)},
		)},
		{Action: errno(unix.ENOSYS), Names: known(absent)},
		sockets,
	}}
	instructions, err := policy.Assemble()
	if err != nil {
		return nil
	}
	// The library lets the calls of another architecture pass, which have other numbers.
	raw, err := bpf.Assemble(append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(errno(unix.EPERM))},
	}, instructions...))
	if err != nil {
		return nil
	}
	var program []enter.Instruction
	for _, i := range raw {
		program = append(program, enter.Instruction(i))
	}
	return program
}

func errno(e unix.Errno) seccomp.Action { return seccomp.ActionErrno | seccomp.Action(e) }

// equal32 are conditions for the lower half of an argument to be value. The kernel ignores the
// upper half of an int, but the library compares it.
func equal32(argument, value uint32) seccomp.ArgumentConditions {
	all := seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.BitsNotSet, Value: uint64(^value)}}
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if value&bit != 0 {
			all = append(all, seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: uint64(bit)})
		}
	}
	return all
}

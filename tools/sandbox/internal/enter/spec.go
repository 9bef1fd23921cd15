// Package enter confines the process that it runs in, and then executes a command. It imports
// few packages, so that the Go runtime initialises it before most others: a re-executed worker
// is in the sandbox after a fraction of the time that its own start takes.
package enter

import (
	"encoding/json"
	"fmt"
)

// reapFD is a file descriptor of a process with Spec.Reap: the first one in exec.Cmd.ExtraFiles.
const reapFD = 3

// variable is the environment variable that holds the Spec, as JSON.
const variable = "STEVEDORE_SANDBOX_SPEC"

// part is the variable of a later part of the Spec.
func part(n int) string { return fmt.Sprintf("%s_%d", variable, n) }

// maxPart is below the longest variable that Linux passes to a program, 128 KiB.
const maxPart = 100 << 10

// Environment returns the variables of a Spec.
func (s *Spec) Environment() (env []string, err error) {
	encoded, err := json.Marshal(s)
	name := variable
	for err == nil && (len(encoded) > 0 || name == variable) {
		n := min(len(encoded), maxPart)
		env = append(env, name+"="+string(encoded[:n]))
		encoded, name = encoded[n:], part(len(env))
	}
	return env, err
}

// exitFailed is the exit code if the sandbox cannot be set up, as env and timeout have
// it for their own failures. The error is on standard error.
const exitFailed = 125

// Spec is what the process does before it executes its arguments.
type Spec struct {
	// MapUser maps the user and the group of this process into its new user namespace.
	MapUser bool
	// User and Group are their ids outside.
	User, Group int
	// Mounts builds a new root directory from Mount, in a new mount namespace, and enters it.
	Mounts bool
	// FreshProc mounts /proc for the PID namespace of this process.
	FreshProc bool
	// Loopback starts the loopback interface of the new network namespace.
	Loopback bool
	// PIDMax limits the processes of the PID namespace; 0 means no limit. The kernel
	// must have one pid_max per namespace (6.14).
	PIDMax int64
	// Base is an existing directory, on which the new root is assembled.
	Base string
	// Mount is sorted by path: parents first.
	Mount []Mount
	// Rules are the only paths that Landlock lets the command use.
	Rules []Rule
	// Landlock is the ABI of the kernel; 0 means no Landlock.
	Landlock int
	// DenyTCP lets Landlock refuse TCP, for a command without a network namespace.
	DenyTCP bool
	Limits  []Limit
	// Filter is the seccomp program. Empty means none.
	Filter []Instruction
	// Dir is the working directory of the command.
	Dir string
	// First keeps this process as the first one of a PID namespace, with the command as its
	// child. The command should not be the first process, because that ignores signals for
	// which it has no handler.
	First bool
	// DieWithParent kills the command if the thread that started it ends.
	DieWithParent bool
	// Reap keeps this process beside the command, to kill what the command leaves behind. It
	// also kills the command if the file descriptor ReapFD is closed at its other end, which
	// is the case if the worker dies.
	Reap bool
	// Unconfined takes no rights away.
	Unconfined bool
}

// Mount is one path of the new root.
type Mount struct {
	Kind Kind
	// Path is where the command sees it; From is where it is now, empty for Path.
	Path, From string
}

// Kind is a kind of mount.
type Kind int

// Kinds of mounts.
const (
	ReadOnly Kind = iota // a file or directory, without device files and set-user-id
	Writable
	Device
	Empty    // an empty directory that hides what is there
	Scratch  // an empty directory in memory, for /dev/shm
	SealedIn // Path, which is already mounted, becomes read-only
	Pinned   // Path, which is already mounted, cannot be renamed or removed
)

// Rule allows access below a path.
type Rule struct {
	Path   string
	Access uint64 // LANDLOCK_ACCESS_FS_*
}

// Limit is a resource limit, soft and hard.
type Limit struct {
	Resource int
	Value    uint64
}

// Instruction is one of a program of the classic BPF machine, as struct sock_filter has it.
type Instruction struct {
	Op     uint16
	Jt, Jf uint8
	K      uint32
}

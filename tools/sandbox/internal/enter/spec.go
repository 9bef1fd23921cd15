// Package enter confines the process that it runs in, and then executes a command. It
// imports only package syscall, so that the Go runtime initialises it before almost all
// other packages: a re-executed worker enters the sandbox in about 1 ms.
package enter

import "syscall"

// ReapFD is a file descriptor of a process with Spec.Reap: the first one in exec.Cmd.ExtraFiles.
const ReapFD = 3

// AwaitFD is the socket of a process with Spec.Await. MaxCommand is the most that it takes at
// once, in bytes.
const (
	AwaitFD    = 3
	MaxCommand = 64 << 10
)

// Variable is the environment variable that holds the encoded Spec.
const Variable = "STEVEDORE_SANDBOX_SPEC"

// ExitFailed is the exit code if the sandbox cannot be set up, as env and timeout have
// it for their own failures. The error is on standard error.
const ExitFailed = 125

// Spec is what the process does before it executes its arguments.
type Spec struct {
	// MapUser maps the user and the group of this process into its new user namespace.
	MapUser bool
	// User and Group are their ids outside.
	User, Group uint64
	// Mounts builds a new root directory from Mount, in a new mount namespace, and enters it.
	Mounts bool
	// FreshProc mounts /proc for the PID namespace of this process.
	FreshProc bool
	// Loopback starts the loopback interface of the new network namespace.
	Loopback bool
	// PIDMax limits the processes of the PID namespace; 0 means no limit. The kernel
	// must have one pid_max per namespace (6.14).
	PIDMax uint64
	// Base is an existing directory, on which the new root is assembled.
	Base string
	// Mount is sorted by path: parents first.
	Mount []Mount
	// Rules are the only paths that Landlock lets the command use.
	Rules []Rule
	// Landlock is the ABI of the kernel; 0 means no Landlock.
	Landlock uint64
	// DenyTCP lets Landlock refuse TCP, for a command without a network namespace.
	DenyTCP bool
	Limits  []Limit
	// Filter is the seccomp program: 8 bytes per instruction. Empty means none.
	Filter string
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
	// Await prepares this process, which then waits for a Command, with a Spec of its own, and the
	// three standard streams.
	Await bool
	// Unset are variables that only this process needs.
	Unset []string
}

// Mount is one path of the new root.
type Mount struct {
	// Kind is one of the constants below.
	Kind uint64
	// Path is where the command sees it; From is where it is now, empty for Path.
	Path, From string
}

// Kinds of mounts.
const (
	ReadOnly uint64 = iota // a file or directory, without device files and set-user-id
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
type Limit struct{ Resource, Value uint64 }

// Command is a command, with its Spec in the environment.
type Command struct{ Argv, Env []string }

// Encode returns the command as text.
func (c *Command) Encode() string {
	e := encoder{}
	c.fields(&e)
	return string(e.out)
}

// DecodeCommand is the reverse of Encode.
func DecodeCommand(text string) (*Command, error) {
	d := decoder{in: text}
	c := new(Command)
	c.fields(&d)
	return c, d.end()
}

func (c *Command) fields(to coder) {
	list(to, &c.Argv, to.str)
	list(to, &c.Env, to.str)
}

// Encode returns the spec as text for an environment variable: fields end with '\n',
// and '\n', '\\' and NUL are escaped.
func (s *Spec) Encode() string {
	e := encoder{}
	s.fields(&e)
	return string(e.out)
}

// Decode is the reverse of Encode.
func Decode(text string) (*Spec, error) {
	d := decoder{in: text}
	s := new(Spec)
	s.fields(&d)
	return s, d.end()
}

// coder is an encoder or a decoder: one list of fields serves both.
type coder interface {
	str(*string)
	num(*uint64)
}

func (s *Spec) fields(c coder) {
	boolean(c, &s.MapUser)
	c.num(&s.User)
	c.num(&s.Group)
	boolean(c, &s.Mounts)
	boolean(c, &s.FreshProc)
	boolean(c, &s.Loopback)
	c.num(&s.PIDMax)
	c.str(&s.Base)
	list(c, &s.Mount, func(m *Mount) { c.num(&m.Kind); c.str(&m.Path); c.str(&m.From) })
	list(c, &s.Rules, func(r *Rule) { c.str(&r.Path); c.num(&r.Access) })
	c.num(&s.Landlock)
	boolean(c, &s.DenyTCP)
	list(c, &s.Limits, func(l *Limit) { c.num(&l.Resource); c.num(&l.Value) })
	c.str(&s.Filter)
	c.str(&s.Dir)
	boolean(c, &s.First)
	boolean(c, &s.DieWithParent)
	boolean(c, &s.Reap)
	boolean(c, &s.Unconfined)
	boolean(c, &s.Await)
	list(c, &s.Unset, c.str)
}

func boolean(c coder, b *bool) {
	var n uint64
	if *b {
		n = 1
	}
	c.num(&n)
	*b = n == 1
}

func list[T any](c coder, all *[]T, field func(*T)) {
	n := uint64(len(*all))
	c.num(&n)
	if *all == nil {
		if n > 1<<16 {
			n = 0
		}
		*all = make([]T, n)
	}
	for i := range *all {
		field(&(*all)[i])
	}
}

type encoder struct{ out []byte }

func (e *encoder) str(s *string) {
	for i := range len(*s) {
		switch c := (*s)[i]; c {
		case '\n':
			e.out = append(e.out, '\\', 'n')
		case 0:
			e.out = append(e.out, '\\', '0')
		case '\\':
			e.out = append(e.out, '\\', '\\')
		default:
			e.out = append(e.out, c)
		}
	}
	e.out = append(e.out, '\n')
}

func (e *encoder) num(n *uint64) {
	var digits [20]byte
	i, v := len(digits), *n
	for {
		i--
		digits[i] = byte('0' + v%10)
		if v /= 10; v == 0 {
			break
		}
	}
	e.out = append(append(e.out, digits[i:]...), '\n')
}

type decoder struct {
	in  string
	err bool
}

// end returns an error if the text was not what the fields need.
func (d *decoder) end() error {
	if d.err || d.in != "" {
		return syscall.EINVAL
	}
	return nil
}

func (d *decoder) str(s *string) {
	if field, rest := cut(d.in, '\n'); len(field) < len(d.in) {
		if plain, _ := cut(field, '\\'); len(plain) == len(field) {
			*s, d.in = field, rest // without a copy
			return
		}
	}
	var out []byte
	for i := 0; i < len(d.in); i++ {
		switch c := d.in[i]; {
		case c == '\n':
			*s, d.in = string(out), d.in[i+1:]
			return
		case c == '\\' && i+1 < len(d.in):
			i++
			switch d.in[i] {
			case 'n':
				out = append(out, '\n')
			case '0':
				out = append(out, 0)
			default:
				out = append(out, d.in[i])
			}
		default:
			out = append(out, c)
		}
	}
	d.err, d.in = true, ""
}

func (d *decoder) num(n *uint64) {
	var text string
	d.str(&text)
	*n = 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			d.err = true
			return
		}
		*n = *n*10 + uint64(c-'0')
	}
}

// cut is strings.Cut.
func cut(s string, sep byte) (before, after string) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

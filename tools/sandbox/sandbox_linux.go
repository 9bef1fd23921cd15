package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/tools/sandbox/internal/enter"
)

// DefaultMode is the mode of this system.
const DefaultMode = Required

// platform is the state of a Sandbox on Linux.
type platform struct {
	level level
	abi   uint64
	tried []string // why better levels do not work

	once  sync.Once
	rules []enter.Rule

	spares spares
}

// level is a set of mechanisms. Kernels, and the engines of containers, allow some of
// them to an ordinary user.
type level struct {
	flags     uintptr // CLONE_NEW*
	mounts    bool
	freshProc bool
}

const (
	isolating = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
	mounting  = isolating | unix.CLONE_NEWNS
)

// levels, the best one first.
var levels = []level{
	{flags: mounting | unix.CLONE_NEWUSER, mounts: true, freshProc: true},
	{flags: mounting | unix.CLONE_NEWUSER, mounts: true},
	{flags: mounting, mounts: true, freshProc: true},
	{flags: mounting, mounts: true},
	{flags: isolating | unix.CLONE_NEWUSER},
	{},
}

func (p *platform) open(s *Sandbox) error {
	p.abi = enter.ABI()
	for _, l := range levels {
		if s.cfg.NoNamespaces && l.flags != 0 {
			continue
		}
		if p.level = l; s.cfg.Network {
			p.level.flags &^= unix.CLONE_NEWNET
		}
		p.once = sync.Once{}
		err := p.probe(s)
		if err == nil {
			break
		}
		p.tried = append(p.tried, err.Error())
		if l.flags == 0 { // not even the filter
			p.abi = 0
		}
	}
	protection := p.protection()
	if s.cfg.Mode == Required && !protection.Confined() {
		return fmt.Errorf("%w: %s", ErrUnconfined, strings.Join(protection.Missing, "; "))
	}
	if !p.level.mounts {
		for _, hidden := range s.cfg.Hide {
			if s.cfg.Mode == Required && within(hidden, s.cfg.Workspace) {
				return fmt.Errorf("%w: the data directory %q is in the workspace, and hiding it needs user namespaces; use another --workspace or --data", ErrUnconfined, hidden)
			}
		}
	}
	return nil
}

// probe runs nothing in the sandbox.
func (p *platform) probe(s *Sandbox) error {
	cmd, err := s.Command(context.Background(), Run{probe: true}, "")
	if err != nil {
		return err
	}
	cmd.Args = cmd.Args[:1]
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && text != "" {
		return errors.New(text)
	}
	return err
}

func (p *platform) protection() Protection {
	has := func(flag uintptr) bool { return p.level.flags&flag != 0 }
	filter := seccompFilter(0) != ""
	got := Protection{
		Files: p.abi > 0, Network: p.abi > 0 && filter, Processes: has(unix.CLONE_NEWPID),
		Protected: p.level.mounts, Root: os.Getuid() == 0,
	}
	if p.abi > 0 {
		got.Layers = append(got.Layers, fmt.Sprintf("Landlock %d", p.abi))
		if filter {
			got.Layers = append(got.Layers, "seccomp")
		}
	} else {
		got.Missing = append(got.Missing, "Landlock or seccomp does not work, so a command can use all files of this user; use Linux 5.13 or later with Landlock enabled (lsm=landlock)")
	}
	for _, l := range []struct {
		flag uintptr
		name string
	}{{unix.CLONE_NEWUSER, "user"}, {unix.CLONE_NEWNS, "mount"}, {unix.CLONE_NEWPID, "PID"}, {unix.CLONE_NEWNET, "network"}} {
		if has(l.flag) {
			got.Layers = append(got.Layers, l.name+" namespace")
		}
	}
	if !p.level.mounts {
		reason := ""
		if len(p.tried) > 0 {
			reason = " (" + p.tried[0] + ")"
		}
		missing := "user namespaces do not work, so a command can write .git/hooks, see other processes, and kill the process that ends what it leaves behind; allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or the seccomp profile of the container)"
		if got.Root {
			missing = "user namespaces do not work, and without them a command would have the rights of root; run the worker as an ordinary user, or allow user namespaces"
		}
		got.Missing = append(got.Missing, missing+reason)
	} else if !p.level.freshProc {
		got.Missing = append(got.Missing, "the kernel refuses a new /proc, as in a container, so a command sees the command lines of other processes; run the container with an unmasked /proc")
	}
	return got
}

func (p *platform) command(ctx context.Context, s *Sandbox, run Run, tmp string, argv []string) (*exec.Cmd, error) {
	if slices.ContainsFunc(argv, func(arg string) bool { return strings.ContainsRune(arg, 0) }) {
		return nil, errors.New("sandbox: the command contains a zero byte")
	}
	spec := p.spec(s, run, tmp)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{"stevedore-sandbox"}, argv...)
	cmd.Dir = "/"
	visible := tmp
	if p.level.mounts {
		visible = "/tmp"
	}
	cmd.Env = encode(spec, s.environment(run.Env, visible))
	attr := &syscall.SysProcAttr{Cloneflags: p.level.flags &^ unix.CLONE_NEWNS} // the helper makes that
	if p.level.flags&unix.CLONE_NEWUSER != 0 {
		// Package syscall copies the memory of the worker for a user namespace, for the sake of
		// maps. The helper writes them itself, so the child can share the memory until then.
		attr.Cloneflags |= unix.CLONE_VM | unix.CLONE_VFORK
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN} // in the namespace, until it drops them
	}
	cmd.SysProcAttr = attr
	return cmd, nil
}

// encode returns the environment of the helper: that of the command, and the spec.
func encode(spec *enter.Spec, env []string) []string {
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, enter.Variable+"=") })
	// The Go runtime of the helper starts faster with these.
	for _, kv := range []string{"GOMAXPROCS=1", "GOGC=off"} {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			env, spec.Unset = append(env, kv), append(spec.Unset, name)
		}
	}
	return append(env, enter.Variable+"="+spec.Encode())
}

// reaped returns a command without a sandbox, but with a process that kills what it leaves behind.
func reaped(ctx context.Context, run Run, argv, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{"stevedore-sandbox"}, argv...)
	cmd.Dir = run.Dir
	cmd.Env = encode(&enter.Spec{Dir: run.Dir, DieWithParent: run.DieWithParent, Reap: true, Unconfined: true}, env)
	return cmd
}

// needsReaper reports whether the level has no PID namespace.
func (p *platform) needsReaper() bool { return p.level.flags&unix.CLONE_NEWPID == 0 }

// mergeAttributes adds the namespaces of confined to those of cmd.
func mergeAttributes(cmd, confined *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = confined.SysProcAttr
		return
	}
	to, from := cmd.SysProcAttr, confined.SysProcAttr
	to.Cloneflags |= from.Cloneflags
	to.AmbientCaps = from.AmbientCaps
}

// spec returns what the process does before it executes the command.
func (p *platform) spec(s *Sandbox, run Run, tmp string) *enter.Spec {
	spec := p.prepared()
	spec.Mounts, spec.FreshProc, spec.Base = p.level.mounts, p.level.freshProc, s.home
	spec.Dir, spec.DieWithParent, spec.Reap = run.Dir, run.DieWithParent, run.Reap && p.needsReaper()
	spec.Landlock, spec.DenyTCP = p.abi, !s.cfg.Network && p.level.flags&unix.CLONE_NEWNET == 0
	spec.Limits = p.limits(s.cfg.Limits)
	if p.level.flags&unix.CLONE_NEWPID != 0 {
		spec.First = true
		// RLIMIT_NPROC does not apply to root.
		if os.Getuid() == 0 && p.level.freshProc && ownPIDMax() && s.cfg.Limits.Processes > 0 {
			spec.PIDMax = uint64(s.cfg.Limits.Processes) + reservedPIDs
		}
	}
	if p.abi > 0 {
		spec.Filter = seccompFilter(p.sockets(s.cfg.Network))
	}
	writable := slices.Concat([]string{s.cfg.Workspace, s.home}, s.cfg.Write)
	readable := slices.Concat(systemDirs, s.cfg.Read)
	spec.Rules = slices.Clone(p.fixedRules(readable, writable))
	if !p.level.mounts {
		spec.Rules = append(spec.Rules, enter.Rule{Path: tmp, Access: enter.Write})
	}
	if p.level.mounts {
		spec.Mount = p.mounts(s, readable, writable, tmp)
		if !run.probe {
			spec.Mount = append(spec.Mount, s.repos.mounts(writable)...)
		}
	}
	return spec
}

// prepared returns the part of a spec that does not depend on the command.
func (p *platform) prepared() *enter.Spec {
	return &enter.Spec{
		MapUser: p.level.flags&unix.CLONE_NEWUSER != 0, User: uint64(os.Getuid()), Group: uint64(os.Getgid()),
		Loopback: p.level.flags&unix.CLONE_NEWNET != 0,
	}
}

// fixedRules returns the Landlock rules of all commands.
func (p *platform) fixedRules(readable, writable []string) []enter.Rule {
	p.once.Do(func() { p.rules = rules(readable, writable, p.level.mounts) })
	return p.rules
}

// reservedPIDs are numbers that the kernel does not use again. A smaller pid_max is invalid.
const reservedPIDs = 301

// sockets returns the families of sockets that a command can create.
func (p *platform) sockets(network bool) sockets {
	switch {
	case network && p.level.mounts, p.level.flags&unix.CLONE_NEWNET != 0 && p.level.mounts:
		return localSockets | internetSockets // with its own network, they reach nobody
	case network:
		return internetSockets
	}
	// Without a mount namespace, a command could connect to the sockets of other programs.
	return 0
}

func (p *platform) limits(l Limits) []enter.Limit {
	all := []struct {
		resource uint64
		value    int64
	}{{unix.RLIMIT_FSIZE, l.FileSize}, {unix.RLIMIT_NOFILE, l.OpenFiles}, {unix.RLIMIT_CPU, l.CPU}}
	if p.level.flags&unix.CLONE_NEWUSER != 0 { // outside, it counts all processes of the user
		all = append(all, struct {
			resource uint64
			value    int64
		}{unix.RLIMIT_NPROC, l.Processes})
	}
	limits := []enter.Limit{{Resource: unix.RLIMIT_CORE, Value: 0}}
	for _, limit := range all {
		if limit.value > 0 {
			limits = append(limits, enter.Limit{Resource: limit.resource, Value: uint64(limit.value)})
		}
	}
	return limits
}

// mounts returns the root directory of a command, parents first.
func (p *platform) mounts(s *Sandbox, readable, writable []string, tmp string) []enter.Mount {
	all := []enter.Mount{
		{Kind: enter.Writable, Path: "/tmp", From: tmp}, {Kind: enter.Scratch, Path: "/dev/shm"},
	}
	for _, path := range devices {
		all = append(all, enter.Mount{Kind: enter.Device, Path: path})
	}
	for _, path := range readable {
		all = append(all, enter.Mount{Kind: enter.ReadOnly, Path: path})
	}
	all = append(all, enter.Mount{Kind: enter.ReadOnly, Path: "/etc"})
	for _, path := range linkedEtc() {
		all = append(all, enter.Mount{Kind: enter.ReadOnly, Path: path})
	}
	for _, path := range writable {
		all = append(all, enter.Mount{Kind: enter.Writable, Path: path})
	}
	for _, path := range s.cfg.Hide {
		if slices.ContainsFunc(slices.Concat(readable, writable), func(dir string) bool { return within(path, dir) }) {
			all = append(all, enter.Mount{Kind: enter.Empty, Path: path})
		}
	}
	slices.SortStableFunc(all, func(a, b enter.Mount) int { return strings.Compare(a.Path, b.Path) })
	// The same path once: the last one wins, so writing wins over reading.
	all = slices.CompactFunc(reversed(all), func(a, b enter.Mount) bool { return a.Path == b.Path })
	return reversed(all)
}

func reversed(all []enter.Mount) []enter.Mount {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

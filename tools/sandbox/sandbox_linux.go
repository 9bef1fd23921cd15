package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	abi   int
	tried []string // why better levels do not work

	once   sync.Once // per level
	rules  []enter.Rule
	filter []enter.Instruction
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

// unconfined are the levels of a command without a sandbox, whose processes end with it.
var unconfined = []level{{flags: unix.CLONE_NEWPID}, {flags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER}, {}}

func (p *platform) open(s *Sandbox) error {
	all := unconfined
	if s.cfg.Mode != Off {
		all, p.abi = levels, enter.ABI()
	}
	for _, l := range all {
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
		if strings.Contains(err.Error(), unix.EMFILE.Error()) { // of this process or of its child
			return fmt.Errorf("examine what confines commands: %w", unix.EMFILE)
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
				return fmt.Errorf("%w: the data directory %q is in the workspace, and hiding it needs user namespaces; use another workspace or "+
					"data directory", ErrUnconfined, hidden)
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
	filter := len(seccompFilter(nil)) > 0
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
		got.Missing = append(got.Missing, "Landlock or seccomp does not work, so a command can use all files of this user; use Linux 5.13 "+
			"or later with Landlock enabled (lsm=landlock)")
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
		missing := "user namespaces do not work, so a command can write .git, see other processes, and kill the process that ends what it " +
			"leaves behind; allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or the seccomp profile of the container)"
		if got.Root {
			missing = "user namespaces do not work, and without them a command would have the rights of root; run the worker as an ordinary " +
				"user, or allow user namespaces"
		}
		got.Missing = append(got.Missing, missing+reason)
	} else if !p.level.freshProc {
		got.Missing = append(got.Missing, "the kernel refuses a new /proc, as in a container, so a command sees the command lines of "+
			"other processes; run the container with an unmasked /proc")
	}
	return got
}

func (p *platform) command(ctx context.Context, s *Sandbox, run Run, protected []string, tmp string, argv []string) (*exec.Cmd, error) {
	if slices.ContainsFunc(argv, func(arg string) bool { return strings.ContainsRune(arg, 0) }) {
		return nil, errors.New("sandbox: the command contains a zero byte")
	}
	visible := p.visible(tmp)
	spec, env := p.spec(run), run.Env
	if spec.Unconfined = s.cfg.Mode == Off; !spec.Unconfined {
		p.confine(spec, s, run, protected, tmp)
		env = s.environment(env, visible)
	}
	variables, err := spec.Environment()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{"stevedore-sandbox"}, argv...)
	cmd.Dir, cmd.Env = "/", append(env, variables...)                                     // of two values the last counts
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: p.level.flags &^ unix.CLONE_NEWNS} // the helper makes that
	if spec.DieWithParent && !spec.Reap {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if spec.MapUser {
		// Package syscall copies the memory of the worker for a user namespace, for the sake of
		// maps. The helper writes them itself, so the child can share the memory until then.
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_VM | unix.CLONE_VFORK
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN} // in the namespace, until it drops them
	}
	return cmd, nil
}

// visible returns the path at which a command sees its temporary directory.
func (p *platform) visible(tmp string) string {
	if p.level.mounts {
		return "/tmp"
	}
	return tmp
}

// reaps reports whether processes can outlive their command, because the system has no PID
// namespaces for it. Then a helper beside the command kills them.
func (p *platform) reaps() bool { return p.level.flags&unix.CLONE_NEWPID == 0 }

// spec returns what the helper does for all commands.
func (p *platform) spec(run Run) *enter.Spec {
	has := func(flag uintptr) bool { return p.level.flags&flag != 0 }
	return &enter.Spec{
		MapUser: has(unix.CLONE_NEWUSER), User: os.Getuid(), Group: os.Getgid(), Dir: run.Dir,
		First: has(unix.CLONE_NEWPID), DieWithParent: run.Contained, Reap: run.Contained && p.reaps(),
	}
}

// confine adds what the helper does to confine a command.
func (p *platform) confine(spec *enter.Spec, s *Sandbox, run Run, protected []string, tmp string) {
	ownNetwork := p.level.flags&unix.CLONE_NEWNET != 0
	spec.Mounts, spec.FreshProc, spec.Base, spec.Loopback = p.level.mounts, p.level.freshProc, s.home, ownNetwork
	spec.Landlock, spec.DenyTCP = p.abi, !s.cfg.Network && !ownNetwork
	spec.Limits = p.limits(s.cfg.Limits)
	// RLIMIT_NPROC does not apply to root.
	if spec.First && os.Getuid() == 0 && p.level.freshProc && ownPIDMax() && s.cfg.Limits.Processes > 0 {
		spec.PIDMax = s.cfg.Limits.Processes + reservedPIDs
	}
	writable := slices.Concat([]string{s.cfg.Workspace, s.home}, s.cfg.Write)
	readable := slices.Concat(systemDirs, s.cfg.Read)
	p.once.Do(func() { // the same for all commands
		p.rules, p.filter = rules(readable, writable, p.level.mounts), seccompFilter(p.sockets(s.cfg.Network))
	})
	if spec.Rules = slices.Clone(p.rules); p.abi > 0 {
		spec.Filter = p.filter
	}
	if !p.level.mounts {
		spec.Rules = append(spec.Rules, enter.Rule{Path: tmp, Access: enter.Write})
	} else if spec.Mount = p.mounts(s, readable, writable, tmp); !run.probe {
		spec.Mount = append(spec.Mount, s.protected(run, protected, writable)...)
	}
}

// reservedPIDs are numbers that the kernel does not use again. A smaller pid_max is invalid.
const reservedPIDs = 301

// sockets returns the families of sockets that a command can create.
func (p *platform) sockets(network bool) []uint64 {
	internet := []uint64{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} // the last one lists interfaces
	switch {
	case p.level.mounts && (network || p.level.flags&unix.CLONE_NEWNET != 0):
		return append(internet, unix.AF_UNIX) // with its own network, they reach nobody
	case network:
		return internet
	}
	// Without a mount namespace, a command could connect to the sockets of other programs.
	return nil
}

func (p *platform) limits(l Limits) []enter.Limit {
	type limit struct {
		resource int
		value    int64
	}
	all := []limit{{unix.RLIMIT_FSIZE, l.FileSize}, {unix.RLIMIT_NOFILE, l.OpenFiles}, {unix.RLIMIT_CPU, l.CPU}}
	if p.level.flags&unix.CLONE_NEWUSER != 0 { // outside, it counts all processes of the user
		all = append(all, limit{unix.RLIMIT_NPROC, l.Processes})
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
		if _, err := os.Lstat(path); err == nil || !within(path, s.cfg.Workspace) { // such as a .git that a command may make
			all = append(all, enter.Mount{Kind: enter.Writable, Path: path})
		}
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

// protected returns the mounts that make read-only what programs execute, and that keep the
// directories above it, and above the hidden ones, in their place: a command could otherwise
// rename them and put others there.
func (s *Sandbox) protected(run Run, protected, writable []string) (all []enter.Mount) {
	pinned := map[string]bool{}
	pin := func(path string) {
		root := ""
		for _, dir := range writable {
			if within(path, dir) && len(dir) > len(root) {
				root = dir
			}
		}
		if root == "" || path == root {
			return
		}
		rel, _ := filepath.Rel(root, filepath.Dir(path))
		for name := range strings.SplitSeq(rel, "/") {
			if root = filepath.Join(root, name); name != "." && !pinned[root] {
				pinned[root] = true
				all = append(all, enter.Mount{Kind: enter.Pinned, Path: root})
			}
		}
	}
	for _, path := range s.cfg.Hide {
		pin(path)
	}
	for _, path := range protected {
		if run.Approved && !isSettings(filepath.Base(path)) {
			continue
		}
		pin(path)
		all = append(all, enter.Mount{Kind: enter.SealedIn, Path: path})
		for _, allowed := range s.cfg.Write {
			if _, err := os.Lstat(allowed); err == nil && within(allowed, path) {
				all = append(all, enter.Mount{Kind: enter.Writable, Path: allowed})
			}
		}
	}
	return all
}

func reversed(all []enter.Mount) []enter.Mount {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

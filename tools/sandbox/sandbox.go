package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// Mode says what happens if the system cannot confine a command.
type Mode string

// Modes.
const (
	Required   Mode = "required"   // New fails
	BestEffort Mode = "besteffort" // commands run with the protection that there is
	Off        Mode = "off"        // commands run with all rights of the worker
)

// Config says what commands may use. Only Workspace is required.
type Config struct {
	// Mode is what happens if the system cannot confine a command. Default: DefaultMode.
	Mode Mode
	// Workspace is the directory that commands can read and write.
	Workspace string
	// State is a directory for the private home and the temporary directories of
	// commands, which Command creates. Default: a temporary directory that Close removes.
	State string
	// Read are more files and directories that commands can read and execute.
	Read []string
	// Write are more files and directories that commands can write. A path in the workspace that
	// Executed names, such as .git, is not protected if it is listed here; it need not exist.
	Write []string
	// Hide are directories that commands never see, even in the workspace.
	Hide []string
	// Network lets commands use the network of the host.
	Network bool
	// Env are variables, as NAME=VALUE, that commands get in addition.
	Env []string
	// Limits are the limits of each command.
	Limits Limits
	// NoNamespaces uses no namespaces, even if the kernel has them: for tests, and for programs that
	// need those of the host.
	NoNamespaces bool
}

// Limits are the limits of the processes of one command. 0 means the default, and a
// negative value means no limit.
type Limits struct {
	Processes int64 // processes and threads at once; default 4096; only with namespaces
	OpenFiles int64 // per process; default 4096
	FileSize  int64 // bytes of one file; default 2 GiB
	CPU       int64 // seconds of CPU time of one process; default 3600
}

func (l Limits) withDefaults() Limits {
	l.Processes = cmp.Or(l.Processes, 4096)
	l.OpenFiles = cmp.Or(l.OpenFiles, 4096)
	l.FileSize = cmp.Or(l.FileSize, 2<<30)
	l.CPU = cmp.Or(l.CPU, 3600)
	return l
}

// ErrUnconfined means that the system cannot confine commands as Required demands.
var ErrUnconfined = errors.New("this system cannot confine commands")

// Sandbox runs commands. It is safe for concurrent use.
type Sandbox struct {
	cfg      Config
	home     string
	tmp      string           // temporary directories of commands
	lock     *durable.DirLock // of tmp, or of the state if that is temporary
	platform platform
	protect  protection
	remove   bool     // the state, which is temporary
	left     []string // what commands of dead workers made, with its new names
	befores  sync.Map // *before by the *exec.Cmd that Execute or Supervise will run
	// noting is held from a scan until what it found is noted or set aside.
	noting sync.Mutex

	mu   sync.Mutex
	tmps map[string]bool // names of temporary directories that exist
}

// New examines the system. If it cannot confine commands and the mode is Required, the
// error is ErrUnconfined, with the reason and what to do.
func New(cfg Config) (*Sandbox, error) {
	cfg.Mode = cmp.Or(cfg.Mode, DefaultMode)
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Sandbox{cfg: cfg, tmps: map[string]bool{}}
	if cfg.Mode == Off {
		return s, s.platform.open(s)
	}
	paths := []*[]string{{cfg.Workspace}, &cfg.Read, &cfg.Write, &cfg.Hide}
	for _, list := range paths {
		if err := resolve(list); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	cfg.Workspace = (*paths[0])[0]
	if err := s.openState(&cfg); err != nil {
		return nil, err
	}
	s.cfg = cfg
	s.protect.allowed = cfg.Write
	if err := s.platform.open(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.recover()
	return s, nil
}

// resolve makes paths absolute and follows symbolic links, because the kernel's rules
// are about the files themselves.
func resolve(paths *[]string) error {
	resolved := make([]string, 0, len(*paths))
	for _, path := range *paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		real, err := filepath.EvalSymlinks(abs)
		if errors.Is(err, os.ErrNotExist) {
			real = abs // a data directory that a later start creates
		} else if err != nil {
			return err
		}
		resolved = append(resolved, real)
	}
	*paths = resolved
	return nil
}

// tempState begins the names of temporary states below os.TempDir.
const tempState = "stevedore-shell-"

func (s *Sandbox) openState(cfg *Config) error {
	var err error
	if cfg.State == "" {
		durable.RemoveLeft(os.TempDir(), tempState, removeAll)
		cfg.State, s.lock, err = durable.TempDir("", tempState)
		s.remove = true
	} else {
		err = os.MkdirAll(cfg.State, 0o700)
	}
	if err == nil {
		state := []string{cfg.State}
		err = resolve(&state)
		cfg.State = state[0]
	}
	s.home = filepath.Join(cfg.State, "home")
	if err == nil {
		err = os.MkdirAll(s.home, 0o700)
	}
	switch {
	case err != nil:
	case s.remove:
		s.tmp = filepath.Join(cfg.State, "tmp")
		err = os.Mkdir(s.tmp, 0o700)
	default:
		durable.RemoveLeft(cfg.State, "tmp-", removeAll)
		s.tmp, s.lock, err = durable.TempDir(cfg.State, "tmp-")
	}
	if err != nil {
		return fmt.Errorf("sandbox: create the private home of commands: %w", err)
	}
	return writeGitConfig(s.home)
}

// Close removes what commands left in temporary directories. No command may run.
func (s *Sandbox) Close() (err error) {
	if s.lock != nil {
		err = s.lock.Unlock()
	}
	switch {
	case s.remove:
		return errors.Join(err, removeAll(s.cfg.State))
	case s.tmp != "":
		return errors.Join(err, removeAll(s.tmp))
	}
	return err
}

// removeAll removes a tree that a command wrote, in which directories may be read-only.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Run says how one command runs.
type Run struct {
	// Dir is the working directory. Default: the workspace.
	Dir string
	// Env is the environment, as NAME=VALUE. The sandbox sets HOME, TMPDIR and the
	// variables of Config.Env.
	Env []string
	// Tmp names the temporary directory: commands with the same name share one. It must
	// be a safe file name.
	Tmp string
	// Contained is for a command that Execute or Supervise runs, which ends all its processes.
	Contained bool
	// Approved lets the command write repositories: a person has approved it.
	Approved bool

	probe bool // a test of the kernel
}

// Command returns a command that runs argv in the sandbox, or without it if the mode is Off.
// The caller can set the streams, but not the path, the arguments or the environment, and
// runs the command with Execute or Supervise, if it is Contained, or as any command.
func (s *Sandbox) Command(ctx context.Context, run Run, argv ...string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("sandbox: no command")
	}
	run.Dir = cmp.Or(run.Dir, s.cfg.Workspace)
	tmp := ""
	if s.cfg.Mode == Off {
		run.Env = append(run.Env, s.cfg.Env...)
	} else {
		var err error
		if tmp, err = s.tmpDir(cmp.Or(run.Tmp, "default")); err != nil {
			return nil, err
		}
	}
	s.noting.Lock()
	defer s.noting.Unlock()
	var found scan
	if s.cfg.Mode != Off && !run.probe {
		found = s.protect.scan(s.writable())
	}
	cmd, err := s.platform.command(ctx, s, run, found.all(), tmp, argv)
	if err == nil && run.Contained && s.cfg.Mode != Off && !run.probe {
		var b *before
		if b, err = s.note(ctx, found, run.Approved); err == nil {
			s.befores.Store(cmd, b)
		}
	}
	return cmd, err
}

// tmpDir returns a temporary directory, which it creates.
func (s *Sandbox) tmpDir(name string) (string, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return "", fmt.Errorf("sandbox: %q is not a name of a temporary directory", name)
	}
	dir := filepath.Join(s.tmp, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tmps[name] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("sandbox: create a temporary directory: %w", err)
		}
		s.tmps[name] = true
	}
	return dir, nil
}

// Tmp returns the temporary directory of commands whose Run.Tmp is name, and the path at which they
// see it. Without a sandbox, it is that of the system.
func (s *Sandbox) Tmp(name string) (dir, visible string, err error) {
	if s.cfg.Mode == Off {
		return os.TempDir(), os.TempDir(), nil
	}
	dir, err = s.tmpDir(cmp.Or(name, "default"))
	return dir, s.platform.visible(dir), err
}

// environment returns env with the variables of the sandbox.
func (s *Sandbox) environment(env []string, tmp string) []string {
	set := []string{"HOME=" + s.home, "TMPDIR=" + tmp}
	if !s.cfg.Network { // npm and pip would retry for a minute; pip names the reason only if it retries
		set = append(set, "npm_config_fetch_retries=0", "PIP_RETRIES=1")
	}
	set = append(set, s.cfg.Env...)
	drop := map[string]bool{"XDG_RUNTIME_DIR": true} // sockets
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		drop[name] = true
	}
	var out []string
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); !drop[name] {
			out = append(out, kv)
		}
	}
	return append(out, set...)
}

// Ended says how a command of Execute ended.
type Ended struct {
	// Killed is set if the context of the command ended before it.
	Killed bool
	// SetAside are the new names of what the command made, although programs execute what has the
	// old name (see Executed). They are in the workspace.
	SetAside []string
	// Unsafe says what may be executed and could not be set aside.
	Unsafe []string
}

// Execute runs a Contained command that ends soon, as Supervise does, and sets aside what it made.
func (s *Sandbox) Execute(cmd *exec.Cmd, grace time.Duration, started func()) (end Ended, err error) {
	noted, ok := s.befores.Load(cmd)
	killed, err := s.supervise(cmd, grace, started)
	if ok {
		end = s.setAside(noted.(*before))
		s.forget(cmd)
	}
	end.Killed = killed
	return end, err
}

// Supervise starts a Contained command, calls started, waits for its end, and kills all processes
// that it left behind. When the context of Command ends, the command gets SIGTERM, and after the
// grace period SIGKILL; then killed is set. It is for programs that run for long: what people make in
// the workspace meanwhile stays.
//
//   - On Unix, the command has a process group, which is killed.
//   - On Linux, no process survives the command or this process: the kernel kills a PID namespace
//     together with its first process. If the system has none for us, a helper beside the command
//     is the parent of all processes that lost theirs, and kills them when the command or this
//     process has ended. A command can kill that helper, too.
//   - On Windows, a job object ends with the command and with this process.
//   - Elsewhere, a process that leaves the group (setsid) survives.
func (s *Sandbox) Supervise(cmd *exec.Cmd, grace time.Duration, started func()) (killed bool, err error) {
	s.forget(cmd)
	return s.supervise(cmd, grace, started)
}

// forget ends the note of a command.
func (s *Sandbox) forget(cmd *exec.Cmd) {
	if noted, ok := s.befores.LoadAndDelete(cmd); ok {
		noted.(*before).forget()
	}
}

// Left returns the names that New set aside because a command had made them whose worker died, and
// what it could not set aside; see Ended.
func (s *Sandbox) Left() []string { return s.left }

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

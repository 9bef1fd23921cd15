// Package command runs the program of an MCP server and ends it, with the processes
// that it started, at the latest when this process ends.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// Config describes a program.
type Config struct {
	// Argv is the program and its arguments.
	Argv []string
	// Dir is the working directory; default that of this process.
	Dir string
	// Env is the environment, as NAME=VALUE.
	Env []string
	// Stderr receives what the program writes to its standard error; nil discards it.
	Stderr io.Writer
	// Sandbox confines the program; nil means that it has all rights of this process.
	Sandbox *sandbox.Sandbox
	// Grace is how long the program may take to exit after its input has ended, and
	// again after SIGTERM. Default 2 seconds.
	Grace time.Duration
}

// Process is a running program.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader

	tail   *tail
	grace  time.Duration
	cancel context.CancelFunc // ends the program with SIGTERM, and after the grace with SIGKILL
	done   chan struct{}      // closed when the program has ended
	err    error              // how it ended
}

// ErrNoProgram means that the program cannot be started at all.
var ErrNoProgram = errors.New("cannot start the program")

// unconfined runs programs that have all rights of this process, and its namespaces: some
// programs do not work in others, such as sudo.
var unconfined = sync.OnceValues(func() (*sandbox.Sandbox, error) {
	return sandbox.New(sandbox.Config{Mode: sandbox.Off, NoNamespaces: true})
})

// Start starts a program.
func Start(cfg Config) (*Process, error) {
	if len(cfg.Argv) == 0 || cfg.Argv[0] == "" {
		return nil, fmt.Errorf("%w: the command is empty", ErrNoProgram)
	}
	p, err := start(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrNoProgram, tools.Excerpt(cfg.Argv[0], 200), err)
	}
	return p, nil
}

func start(cfg Config) (_ *Process, err error) {
	if _, err := exec.LookPath(cfg.Argv[0]); err != nil {
		return nil, err
	}
	run := sandbox.Run{Dir: cfg.Dir, Env: cfg.Env, Tmp: "mcp", Contained: true}
	if cfg.Sandbox == nil {
		if cfg.Sandbox, err = unconfined(); err != nil {
			return nil, err
		}
		if run.Dir == "" {
			if run.Dir, err = os.Getwd(); err != nil {
				return nil, err
			}
		}
	}
	p := &Process{tail: &tail{}, grace: cmp.Or(cfg.Grace, 2*time.Second), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	cmd, err := cfg.Sandbox.Command(ctx, run, cfg.Argv...)
	if err != nil {
		cancel()
		return nil, err
	}
	cmd.Stderr = p.tail
	if cfg.Stderr != nil {
		cmd.Stderr = io.MultiWriter(p.tail, cfg.Stderr)
	}
	// cmd.StdoutPipe would be closed by cmd.Wait, before all output is read.
	r, w, err := os.Pipe()
	if err != nil {
		cancel()
		return nil, err
	}
	cmd.Stdout = w
	if p.Stdin, err = cmd.StdinPipe(); err != nil {
		cancel()
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	p.Stdout = r
	started := make(chan struct{})
	go func() {
		defer close(p.done)
		_, p.err = cfg.Sandbox.Supervise(cmd, p.grace, func() { close(started) })
	}()
	select {
	case <-started:
	case <-p.done: // it may have started all the same
		select {
		case <-started:
		default:
			err = p.err
		}
	}
	_ = w.Close() // the program has its own copy
	if err != nil {
		cancel()
		return nil, errors.Join(err, r.Close())
	}
	return p, nil
}

// Err says how the program ended: its exit status and the end of its standard error.
// Call it after Close.
func (p *Process) Err() error {
	text := "exit status 0"
	if p.err != nil {
		text = p.err.Error()
	}
	if tail := p.tail.String(); tail != "" {
		return fmt.Errorf("%s; its last output on stderr: %s", text, tail)
	}
	return errors.New(text)
}

// Close ends the program as MCP asks for: it closes the input, then sends SIGTERM, and
// then kills the program. It returns when the program and its group have ended.
func (p *Process) Close() {
	_ = p.Stdin.Close()
	select {
	case <-p.done:
	case <-time.After(p.grace):
	}
	p.cancel()
	<-p.done
	if r, ok := p.Stdout.(*os.File); ok {
		_ = r.SetReadDeadline(time.Now()) // ends a read that a process outside of the group holds open
	}
}

// tail keeps the end of a program's standard error, for error messages.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 400

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailSize):]...)
	t.buf = slices.Clone(t.buf[max(0, len(t.buf)-tailSize):])
	return len(p), nil
}

// String returns the last lines as one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return tools.OneLine(strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), "?"))
}

// Environment returns the environment for a server that other people wrote: the
// variables that programs need to run, and extra, as NAME=VALUE.
func Environment(extra ...string) []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok && !strings.HasPrefix(value, "()") { // a shell function
			env = append(env, name+"="+value)
		}
	}
	return append(env, extra...)
}

// inherited are the variables that MCP's SDKs pass on, and those that the package
// managers of Node and Python need behind a proxy or with another home.
var inherited = []string{
	"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
	"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP",
	"TMP", "USERNAME", "USERPROFILE", "PROGRAMFILES",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NVM_DIR", "npm_config_cache", "npm_config_registry", "UV_CACHE_DIR", "UV_INDEX_URL", "PIP_INDEX_URL",
}

// Name returns the name of a command for messages, without arguments that may be
// secret: the program, and the package if the program is a package runner.
func Name(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name := filepath.Base(argv[0])
	if slices.Contains([]string{"npx", "uvx", "pipx", "bunx", "node", "python", "python3", "deno", "go"}, strings.TrimSuffix(name, ".cmd")) {
		for _, arg := range argv[1:] {
			if !strings.HasPrefix(arg, "-") && arg != "run" && !strings.Contains(arg, "=") && !strings.Contains(arg, "://") {
				return tools.Excerpt(tools.OneLine(name+" "+arg), 100)
			}
		}
	}
	return tools.Excerpt(tools.OneLine(name), 100)
}

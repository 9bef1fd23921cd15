//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// fixture is a sandbox and its directories.
type fixture struct {
	*sandbox.Sandbox
	t                       *testing.T
	workspace, data, secret string // secret is a file that commands must not read
}

const canary = "canary-7f3a"

// open opens a sandbox, or skips the test if the system does not have what cfg needs.
func open(t *testing.T, cfg sandbox.Config) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, workspace: filepath.Join(dir, "workspace"), data: filepath.Join(dir, "data")}
	for _, path := range []string{f.workspace, f.data} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.secret = filepath.Join(f.data, "credential")
	f.write(f.secret, canary)
	cfg.Workspace, cfg.State = f.workspace, filepath.Join(f.data, "shell")
	cfg.Hide = append(cfg.Hide, f.data)
	for i, path := range cfg.Write {
		if !filepath.IsAbs(path) {
			cfg.Write = slices.Clone(cfg.Write)
			cfg.Write[i] = filepath.Join(f.workspace, path)
		}
	}
	s, err := sandbox.New(cfg)
	if errors.Is(err, sandbox.ErrUnconfined) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	f.Sandbox = s
	return f
}

func (f *fixture) write(path, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// sh runs a command and returns its output and exit code.
func (f *fixture) sh(command string) (string, int) {
	f.t.Helper()
	cmd, err := f.Command(context.Background(), sandbox.Run{Env: os.Environ()}, "sh", "-c", command)
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		f.t.Fatalf("%s: %v", command, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// needMounts skips the test if commands have no root directory of their own.
func (f *fixture) needMounts() {
	if !f.Protection().Protected {
		f.t.Skip(f.Protection().Missing)
	}
}

// variants runs a test with all mechanisms, and with Landlock and seccomp only.
func variants(t *testing.T, test func(t *testing.T, f *fixture)) {
	variantsOf(t, sandbox.Config{}, test)
}

func variantsOf(t *testing.T, cfg sandbox.Config, test func(t *testing.T, f *fixture)) {
	t.Run("namespaces", func(t *testing.T) {
		f := open(t, cfg)
		f.needMounts()
		test(t, f)
	})
	t.Run("landlock", func(t *testing.T) {
		cfg.Mode, cfg.NoNamespaces = sandbox.BestEffort, true
		f := open(t, cfg)
		if !f.Protection().Files {
			t.Skip(f.Protection().Missing)
		}
		test(t, f)
	})
}

// Each of these commands tries to use what the sandbox hides. It must fail, and must not
// print the canary.
func TestRefuses(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket := filepath.Join(t.TempDir(), "socket")
	local, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	python := func(code string) string {
		return "command -v python3 >/dev/null || exit 3; python3 -c '" + code + "'"
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(canary), 0o666); err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Open(outside, syscall.O_RDONLY, 0) // as a worker inherits files of the shell that starts it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	t.Cleanup(func() { // exist only if the sandbox failed
		_ = os.Remove("/usr/bin/stevedore-sandbox-test")
		_ = os.Remove("/etc/stevedore-sandbox-test")
	})
	variantsOf(t, sandbox.Config{Limits: sandbox.Limits{FileSize: 1 << 20}}, func(t *testing.T, f *fixture) {
		if err := os.Symlink(outside, filepath.Join(f.workspace, "link")); err != nil {
			t.Fatal(err)
		}
		for name, command := range map[string]string{
			"the credential":        "cat " + f.secret,
			"the data directory":    "ls " + f.data + " | grep credential",
			"a file elsewhere":      "cat " + outside,
			"through a link":        "cat link",
			"by a new link":         "ln -s " + f.secret + " l && cat l",
			"by a hard link":        "ln " + outside + " hard && cat hard",
			"a file of the worker":  fmt.Sprintf("bash -c 'cat <&%d'", inherited),
			"a write elsewhere":     "echo x >> " + outside,
			"a removal":             "rm -f " + outside + "; test ! -e " + outside + " && test -e /etc/passwd && cat " + outside,
			"passwords":             "cat /etc/shadow",
			"a system file":         ": > /usr/bin/stevedore-sandbox-test",
			"a configuration":       ": > /etc/stevedore-sandbox-test",
			"the real home":         "ls /root/.. /root",
			"the worker":            fmt.Sprintf("grep . /proc/%d/environ", os.Getpid()),
			"other processes":       "cat /proc/1/root/" + f.secret,
			"a signal":              fmt.Sprintf("kill -0 %d", os.Getpid()),
			"kernel settings":       "echo x > /proc/sys/kernel/core_pattern",
			"the disk":              "head -c1 /dev/vda || head -c1 /dev/sda",
			"a mount":               "mount -t tmpfs none /tmp",
			"a namespace":           "unshare -Ur true",
			"a mount namespace":     "unshare -m true",
			"a chroot":              "chroot . /bin/true",
			"more rights":           "su -c true; grep -q 'CapEff:.*[1-9a-f]' /proc/self/status",
			"a set-user-id program": "cp /bin/sh s && chmod u+s s && grep -q 'NoNewPrivs:.*0' /proc/self/status",
			"a set-user-id file":    "cp /bin/true s && chmod 6755 s",
			"a set-group-id file":   "touch g && chmod g+s g",
			"a set-user-id mode":    python(`import os; os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755)`),
			"a set-user-id node":    python(`import os; os.mknod("node", 0o104755)`),
			"private keys":          "ls /etc/ssl/private/ && cat /etc/ssl/private/*",
			"a terminal":            python(`import ctypes, sys; l = ctypes.CDLL(None, use_errno=True); l.ioctl(0, ctypes.c_ulong(0x700005412), b"x"); sys.exit(ctypes.get_errno() == 1)`),
			"TCP":                   python(fmt.Sprintf(`import socket; socket.create_connection(("127.0.0.1", %d), 5)`, listener.Addr().(*net.TCPAddr).Port)),
			"UDP":                   python(`import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("192.0.2.1", 9))`),
			"a local socket":        python(`import socket; s = socket.socket(socket.AF_UNIX); s.connect("` + socket + `")`),
			"a raw socket":          python(`import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`),
			"a virtual machine":     python(`import socket; socket.socket(40, socket.SOCK_STREAM)`),
			"a huge file":           "head -c 2M /dev/zero > huge",
			"a core":                "test \"$(ulimit -c)\" != 0",
			"many files":            "test \"$(ulimit -n)\" -gt 4096",
		} {
			out, code := f.sh(command)
			if code == 0 || strings.Contains(out, canary) {
				t.Errorf("%s: exit code %d, output %q", name, code, out)
			}
			_ = os.Remove(filepath.Join(f.workspace, "huge"))
		}
		if text, err := os.ReadFile(outside); err != nil || string(text) != canary {
			t.Errorf("a command changed %s: %q, %v", outside, text, err)
		}
	})
}

// Landlock alone does not stop changes of modes, and sockets of other programs.
func TestHidesWhatLandlockAllows(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{})
	f.needMounts()
	for name, command := range map[string]string{
		"a mode of the system": "chmod 755 /usr",
		"a mode of a device":   "chmod 600 /dev/null",
		"a name elsewhere":     "stat " + f.secret,
		"other processes":      "test \"$(ls -d /proc/[0-9]*/ | wc -l)\" -gt 8",
		"the run directory":    "ls /run",
	} {
		if out, code := f.sh(command); code == 0 {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// The data directory may be in the workspace, such as in a home directory.
func TestHidesTheDataDirectoryInTheWorkspace(t *testing.T) {
	workspace := t.TempDir()
	data := filepath.Join(workspace, ".data")
	f := &fixture{t: t}
	f.write(filepath.Join(data, "credential"), canary)
	cfg := sandbox.Config{Workspace: workspace, State: filepath.Join(data, "shell"), Hide: []string{data}}
	s, err := sandbox.New(cfg)
	if errors.Is(err, sandbox.ErrUnconfined) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f.Sandbox = s
	f.needMounts()
	out, code := f.sh("cat .data/credential; find . ; touch .data/x; touch ~/ok $TMPDIR/ok && echo fine")
	if code != 0 || !strings.Contains(out, "fine") || strings.Contains(out, canary) || strings.Contains(out, "./.data/credential\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(data, "x")); err == nil {
		t.Error("the command wrote into the data directory")
	}
	cfg.NoNamespaces = true
	if s, err := sandbox.New(cfg); !errors.Is(err, sandbox.ErrUnconfined) {
		t.Errorf("Landlock alone cannot hide a part of the workspace, and the error is %v", err)
		_ = s.Close()
	}
}

// What commands of an ended worker left behind is removed, also if the worker had the same process
// id, as in a container, and if a command made directories read-only.
func TestRemovesWhatAnEndedWorkerLeft(t *testing.T) {
	state := t.TempDir()
	left := filepath.Join(state, fmt.Sprintf("tmp-%d-1", os.Getpid()))
	if err := os.MkdirAll(filepath.Join(left, "s1", "read-only", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chmod(filepath.Join(left, "s1", "read-only"), 0o500), os.Chtimes(left, hourAgo, hourAgo)); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: t.TempDir(), State: state})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if tmps, _ := filepath.Glob(filepath.Join(state, "tmp-*")); len(tmps) > 0 {
		t.Errorf("Close left %q", tmps)
	}
}

// The temporary state of a worker that was killed is removed, and that of one that runs stays.
func TestRemovesTheTemporaryStateOfAnEndedWorker(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp) // on Windows
	open := func() *sandbox.Sandbox {
		s, err := sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	runs := open()
	left := filepath.Join(temp, "stevedore-shell-1")
	if err := os.MkdirAll(filepath.Join(left, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	states := func() []string { names, _ := filepath.Glob(filepath.Join(temp, "stevedore-shell-*")); return names }
	for _, state := range states() {
		if err := os.Chtimes(state, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	second := open()
	if now := states(); len(now) != 2 || slices.Contains(now, left) {
		t.Errorf("there are %q", now)
	}
	if err := errors.Join(runs.Close(), second.Close()); err != nil {
		t.Error(err)
	}
	if now := states(); len(now) > 0 {
		t.Errorf("Close left %q", now)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("STEVEDORE_TEST_SECRET", canary)
	variants(t, func(t *testing.T, f *fixture) {
		cmd, err := f.Command(t.Context(), sandbox.Run{Env: []string{"PATH=/usr/bin:/bin", "HOME=/root", "XDG_RUNTIME_DIR=/run"}}, "env")
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for line := range strings.Lines(string(out)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			got[name] = value
		}
		delete(got, "PWD")
		if len(got) != 5 || got["PATH"] != "/usr/bin:/bin" || !strings.HasPrefix(got["HOME"], f.data) || got["TMPDIR"] == "" {
			t.Errorf("the environment is %q", got)
		}
	})
}

func TestSessionsHaveTheirOwnTemporaryDirectory(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, f *fixture) {
		run := func(tmp, command string) string {
			cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ(), Tmp: tmp}, "sh", "-c", command)
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return string(out)
		}
		run("s1", "echo 1 > $TMPDIR/file")
		if got := run("s1", "cat $TMPDIR/file"); got != "1\n" {
			t.Errorf("the same session reads %q", got)
		}
		if got := run("s2", "ls -A $TMPDIR"); strings.Contains(got, "file") {
			t.Errorf("another session sees %q", got)
		}
		if _, err := f.Command(t.Context(), sandbox.Run{Tmp: "../x"}, "true"); err == nil {
			t.Error("a name with a slash is accepted")
		}
	})
}

func TestOperatorAllowsMore(t *testing.T) {
	toolchain := t.TempDir()
	program := filepath.Join(toolchain, "tool")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho works\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	output := t.TempDir()
	f := open(t, sandbox.Config{Read: []string{toolchain}, Write: []string{output}, Env: []string{"EXTRA=1"}})
	if out, code := f.sh(program + " && echo $EXTRA > " + output + "/f && ! touch " + toolchain + "/x"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestNetwork(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f := open(t, sandbox.Config{Network: true})
	connect := fmt.Sprintf(`/usr/bin/python3 -c 'import socket; socket.create_connection(("127.0.0.1", %d), 5)'`, listener.Addr().(*net.TCPAddr).Port)
	if out, code := f.sh(connect); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := f.sh("cat " + f.secret); code == 0 {
		t.Errorf("with the network, a command reads %q", out)
	}
}

// A program that runs for long, such as an MCP server, keeps its streams, gets only its own
// environment, and loses nothing that others make in the workspace meanwhile.
func TestSupervise(t *testing.T) {
	variants(t, func(t *testing.T, f *fixture) {
		t.Setenv("OF_THE_WORKER", canary)
		cmd, err := f.Command(t.Context(), sandbox.Run{Env: []string{"PATH=/usr/bin:/bin"}, Tmp: "mcp", Contained: true},
			"sh", "-c", "cat; cat "+f.secret+"; pwd; env")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		cmd.Stdin, cmd.Stdout = strings.NewReader("input\n"), &out
		if _, err := f.Supervise(cmd, time.Second, func() { f.write(filepath.Join(f.workspace, ".mcp.json"), "{}") }); err != nil {
			t.Error(err)
		}
		if text := out.String(); !strings.HasPrefix(text, "input\n") || strings.Contains(text, canary) || !strings.Contains(text, f.workspace) {
			t.Errorf("output %q", text)
		}
		if _, err := os.Stat(filepath.Join(f.workspace, ".mcp.json")); err != nil {
			t.Error(err)
		}
	})
}

// A fork bomb reaches a limit and ends with its command.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{Limits: sandbox.Limits{Processes: 50}})
	f.needMounts()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd, err := f.Command(ctx, sandbox.Run{Env: os.Environ()}, "sh", "-c", "i=0; while [ $i -lt 600 ]; do sleep 60 & i=$((i+1)); done; echo $i started")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "600 started") || !strings.Contains(strings.ToLower(string(out)), "fork") {
		t.Errorf("%v: %s", err, out)
	}
	if note := f.Explain(string(out), 2); !slices.Contains(note, sandbox.Processes) {
		t.Errorf("the note is %q", note)
	}
}

func TestModes(t *testing.T) {
	workspace := t.TempDir()
	off, err := sandbox.New(sandbox.Config{Mode: sandbox.Off, Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := off.Command(t.Context(), sandbox.Run{}, "/bin/sh", "-c", "pwd")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != workspace {
		t.Errorf("off: %q, %v", out, err)
	}
	if p := off.Protection(); p.Confined() || p.String() != "none" || len(p.Missing) == 0 {
		t.Errorf("off: %+v", p)
	}
	if os.Getuid() == 0 {
		_, err := sandbox.New(sandbox.Config{Mode: sandbox.Required, Workspace: workspace, NoNamespaces: true})
		if !errors.Is(err, sandbox.ErrUnconfined) || !strings.Contains(err.Error(), "ordinary user") {
			t.Errorf("root without namespaces: %v", err)
		}
	}
	if _, err := sandbox.New(sandbox.Config{Workspace: "/dev/null/x"}); err == nil {
		t.Error("a workspace that cannot exist is accepted")
	}
}

// A program that does not exist, a program that cannot be executed, and an argument that the kernel
// cannot pass.
func TestBadCommands(t *testing.T) {
	variants(t, func(t *testing.T, f *fixture) {
		f.write(filepath.Join(f.workspace, "f"), "x")
		for program, want := range map[string]int{"no-such-program": 127, "./no-such-program": 127, "./f": 126} {
			cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ()}, program)
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("%s: exit code %d, want %d: %s %v", program, code, want, out, err)
			}
		}
		if _, err := f.Command(t.Context(), sandbox.Run{}, "a\x00b"); err == nil {
			t.Error("a zero byte is accepted")
		}
		if _, err := f.Command(t.Context(), sandbox.Run{}); err == nil {
			t.Error("no command is accepted")
		}
	})
}

func TestExplain(t *testing.T) {
	f := open(t, sandbox.Config{})
	for output, want := range map[string]sandbox.Refusal{
		"curl: (6) Could not resolve host: x":                                          sandbox.NoNetwork,
		"touch: cannot touch '/usr/x': Read-only file system":                          sandbox.ReadOnly,
		"fatal: Unable to create '/home/me/ws/.git/index.lock': Read-only file system": sandbox.Protected,
		"error: could not write config file .git/config: Device or resource busy":      sandbox.Protected,
		"sh: 1: cannot create .idea/workspace.xml: Read-only file system":              sandbox.Protected,
		"sh: 1: cannot create .gitignore: Read-only file system":                       sandbox.ReadOnly,
		"cat: /etc/shadow: Permission denied":                                          sandbox.Unreadable,
		"cat: /home/me/key: No such file or directory":                                 sandbox.Hidden,
		"sh: 1: Cannot fork":        sandbox.Processes,
		"open: too many open files": sandbox.OpenFiles,
	} {
		if got := f.Explain(output, 1); !slices.Contains(got, want) || len(got) > 1 {
			t.Errorf("Explain(%q) = %q, want %q", output, got, want)
		}
		if got := f.Explain(output, 0); got != nil {
			t.Errorf("a successful command is explained: %q", got)
		}
	}
	for _, output := range []string{"", "assertion failed", "cat: missing.txt: No such file or directory", "sh: 1: nosuchprogramx: not found"} {
		if got := f.Explain(output, 1); got != nil {
			t.Errorf("Explain(%q) = %q, want nothing", output, got)
		}
	}
	if got := f.Explain("", 128+25); !slices.Equal(got, []sandbox.Refusal{sandbox.FileSize}) {
		t.Errorf("SIGXFSZ: %q", got)
	}
}

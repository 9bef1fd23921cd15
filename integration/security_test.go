//go:build linux

package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

// A client without the credential cannot connect, and only the owner of the data
// directory can read the credential.
func TestOnlyTheOwnerGetsIn(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	credential, address, _ := strings.Cut(strings.TrimPrefix(u.url, "nats://"), "@")
	user, password, _ := strings.Cut(credential, ":")
	if len(password) < 20 {
		t.Errorf("the password has %d characters, which can be guessed", len(password))
	}
	for name, opt := range map[string]nats.Option{
		"nothing":         nats.Name("nobody"),
		"no password":     nats.UserInfo(user, ""),
		"a wrong one":     nats.UserInfo(user, password[1:]),
		"another user":    nats.UserInfo("admin", password),
		"it as a token":   nats.Token(password),
		"the system user": nats.UserInfo("sys", "sys"),
	} {
		nc, err := nats.Connect(address, opt)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("connect with %s: %v, want a refusal", name, err)
		}
	}

	entries, err := os.ReadDir(u.data)
	if err != nil || len(entries) == 0 {
		t.Fatalf("read %s: %v, %d entries", u.data, err, len(entries))
	}
	paths := []string{u.data}
	for _, entry := range entries {
		paths = append(paths, filepath.Join(u.data, entry.Name()))
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s: others may use it", path, info.Mode())
		}
	}
	if strings.Contains(u.stderr.String(), password) {
		t.Error("the log holds the password")
	}
}

// Every user can read the process table, so it must not contain the credential of
// the embedded server.
func TestTheCredentialIsNotInTheProcessTable(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	_, rest, _ := strings.Cut(u.url, "stevedore:")
	password, _, _ := strings.Cut(rest, "@")
	serve := start(t, "serve", "--data", u.data, "--workspace", u.workspace)
	for _, p := range []*process{u.process, serve} {
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), file))
			if err != nil {
				t.Fatal(err)
			}
			if len(text) == 0 || strings.Contains(string(text), password) {
				t.Errorf("%s of %q holds the password, or nothing", file, p.cmd.Args)
			}
		}
	}
	if strings.Contains(serve.first, password) {
		t.Errorf("serve prints the password: %s", serve.first)
	}
}

// Tools do not inherit the worker's environment.
func TestToolsDoNotGetTheEnvironment(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	answer := connect(t, u.url).request("call.default.shell", `{"args":{"command":"env; cat /proc/self/environ"}}`)
	if text := answer.text("for_llm"); !strings.Contains(text, "PATH=") || strings.Contains(text, canary) {
		t.Errorf("the tool's environment: %s", text)
	}
}

// If the data directory is read-only, the error gives the reason and what to do.
func TestReadOnlyDataDirectory(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o555); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(workerProgram, "up", "--listen", "127.0.0.1:0", "--data", data, "--workspace", "/")
	cmd.Env = cleanEnvironment()
	if os.Getuid() == 0 { // root may write everywhere, so become another user
		for path := dir; path != "/" && path != os.TempDir(); path = filepath.Dir(path) {
			allow(t, path)
		}
		allow(t, filepath.Dir(workerProgram))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 {
		t.Fatalf("up ended with %v, want exit status 1: %s", err, out)
	}
	for _, want := range []string{data, "permission denied", "choose another directory"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q does not say %q", out, want)
		}
	}
}

func allow(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

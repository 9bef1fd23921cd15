package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// A low limit of open files is named with what is needed, and not taken for a kernel without a sandbox.
func TestLowLimitOfOpenFilesIsNamed(t *testing.T) {
	t.Parallel()
	u := startUpBy(t, `ulimit -n 64; exec "$@"`)
	if !slices.ContainsFunc(problemsOf(t, []string{"--data", u.data}), func(p status.Problem) bool {
		return p.Code == string(trouble.OpenFiles) && strings.Contains(p.Text, "may open 64 files at once, and may need 1024") && strings.Contains(p.Advice, "ulimit -n 1024")
	}) {
		t.Errorf("the status does not name the limit: %+v", problemsOf(t, []string{"--data", u.data}))
	}
	if got := runProgram(t, "sh", "-c", `ulimit -n 64; exec "$@"`, "sh", workerProgram, "doctor", "--data", u.data); got.code != 0 ||
		!strings.Contains(got.stdout, "limits       this process may open 64 files at once") {
		t.Errorf("doctor: %+v", got)
	}
	got := runProgram(t, "sh", "-c", `ulimit -n 12; exec "$@"`, "sh", workerProgram, "serve", "--server", u.url, "--workspace", u.workspace)
	if got.code == 0 || !strings.Contains(got.stderr, "Raise the limit of open files") || strings.Contains(got.stderr, "namespaces do not work") {
		t.Errorf("with 12 files, a worker says %+v", got)
	}
}

// Who may not read the data directory of another user is told whose it is, and not that no server has run.
func TestDataDirectoryOfAnotherUserIsNamed(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	u := startUp(t)
	program := filepath.Join(filepath.Dir(u.workspace), "stevedore")
	// Another process copies it: a child that another test starts meanwhile would hold the file open for writing.
	for _, err := range []error{exec.Command("cp", workerProgram, program).Run(), os.Chmod(program, 0o755), os.Chmod(filepath.Dir(program), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"status", "doctor", "call"} {
		cmd := exec.CommandContext(t.Context(), program, command, "--data", u.data)
		cmd.Args = append(cmd.Args, map[string][]string{"call": {"now"}}[command]...)
		cmd.Env, cmd.Dir = cleanEnvironment(), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if text := string(out); err == nil || !strings.Contains(text, "only the user root may read the data directory") || strings.Contains(text, "no server has run") ||
			command == "doctor" && (!strings.Contains(text, "-> run this as the user that may read it (sudo -u root)") || strings.Contains(text, "sudo chown nobody "+u.data)) {
			t.Errorf("%s: %v, %s", command, err, text)
		}
	}
}

// A read-only file system is named, and not taken for a full one or for wrong permissions.
func TestReadOnlyFileSystemIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside := func(args string) string {
		out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && touch "$1/x" 2>/dev/null;
			test ! -e "$1/x" || exit 99; exec "$2" `+args, "sh", dir, workerProgram).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() == 99 || strings.Contains(string(out), "unshare: ") {
			t.Skipf("no private read-only mount here: %v, %s", err, out)
		}
		return string(out)
	}
	for args, want := range map[string]string{
		`up --data "$1"`:                      "read-only file system: the file system is read-only; mount it for writing",
		`doctor --data "$1"`:                  "-> the file system is read-only; mount it for writing, or choose another directory with --data",
		`up --data "$1/new" --workspace "$1"`: "The file system is read-only; mount it for writing",
	} {
		if got := inside(args); !strings.Contains(got, want) || strings.Contains(got, "change its owner") || strings.Contains(got, "free disk space") {
			t.Errorf("%s: %s; want %q", args, got, want)
		}
	}
}

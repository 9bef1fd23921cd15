package sandbox_test

import (
	"fmt"
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

// children returns the processes that this one started, also those that it has not waited for.
func children(t *testing.T) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("the kernel does not list the children of a process")
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // of a thread that may have ended
		for field := range strings.FieldsSeq(string(text)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// spare returns the process that waits for a command, once there is one.
func (f *fixture) spare() int {
	f.t.Helper()
	var found []int
	eventually(f.t, "a spare process", func() bool {
		found = slices.DeleteFunc(children(f.t), func(pid int) bool {
			argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return string(argv) != "stevedore-sandbox\x00"
		})
		return len(found) > 0
	})
	if len(found) != 1 {
		f.t.Fatalf("%d processes wait, want 1", len(found))
	}
	return found[0]
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// openSpare opens a sandbox that has a spare process.
func openSpare(t *testing.T) (f *fixture, pid int) {
	t.Helper()
	before := children(t)
	t.Cleanup(func() { // after Close, which open defers later
		if left := children(t); len(left) > len(before) {
			t.Errorf("the processes %v are left, and before there were %v", left, before)
		}
	})
	f = open(t, sandbox.Config{})
	f.needMounts()
	if out, code := f.sh("echo first"); out != "first\n" || code != 0 {
		t.Fatalf("got %q, exit code %d", out, code)
	}
	return f, f.spare()
}

// A command in a spare process has the same rights, limits, files, signals and environment as one
// in a new process.
func TestSpareIsConfinedAsANewProcess(t *testing.T) {
	f, spare := openSpare(t)
	const look = `grep -E '^(Uid|Gid|Groups|Sig[BIC]|Cap|NoNewPrivs|Seccomp|Threads)' /proc/self/status
		cat /proc/self/limits; umask; pwd; env -0 | sort -z; ls -l /proc/self/fd | wc -l; cat; cut -d' ' -f3- /proc/self/mountinfo | sed 's/[0-9]*:[0-9]*//'
		readlink /proc/1/exe; ls -A / /dev $TMPDIR; ls /proc/sys/net/ipv4/conf; cat /proc/net/dev | grep -c :; echo $(ps -o pgid= -p $$)`
	outputs := map[string]string{}
	for name, start := range map[string]func(*exec.Cmd) error{"new": (*exec.Cmd).Start, "spare": f.Start} {
		cmd, err := f.Command(t.Context(), sandbox.Run{Dir: f.workspace, Env: []string{"PATH=/usr/bin:/bin", "A=x=y\n\\z", "GOGC=50"}}, "sh", "-c", look)
		if err != nil {
			t.Fatal(err)
		}
		outputs[name], _ = f.run(cmd, start)
		if used := cmd.Process.Pid == spare; used != (name == "spare") {
			t.Errorf("%s: the command uses the spare process: %t", name, used)
		}
	}
	if outputs["new"] != outputs["spare"] || !strings.Contains(outputs["new"], "A=x=y\n\\z") {
		t.Errorf("a new process:\n%s\na spare one:\n%s", outputs["new"], outputs["spare"])
	}
}

// Whatever happens to a spare process, the next command runs, and its status is right.
func TestSpareThatCannotBeUsed(t *testing.T) {
	f, spare := openSpare(t)
	if err := syscall.Kill(spare, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the spare process to be no zombie", func() bool { return !slices.Contains(children(t), spare) })
	if out, code := f.sh("echo second; exit 7"); out != "second\n" || code != 7 {
		t.Errorf("after its death: got %q, exit code %d", out, code)
	}
	spare = f.spare()
	big := strings.Repeat("x", 100_000) // does not fit into one message
	if out, _ := f.sh("echo " + big); strings.TrimSpace(out) != big {
		t.Errorf("a long command prints %d bytes", len(out))
	}
	cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ()}, "cat")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader("input")
	if out, _ := f.run(cmd, f.Start); out != "input" {
		t.Errorf("a command with an input prints %q", out)
	}
	if still := f.spare(); still != spare {
		t.Errorf("a command that cannot use the spare process replaced it")
	}
	cmd, err = f.Command(t.Context(), sandbox.Run{Env: os.Environ()}, "sh", "-c", "ps -o pgid= -p $$ >/dev/null; kill -TERM $$")
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr.Setpgid = true // which the spare process does not have
	if _, code := f.run(cmd, f.Start); code != 128+15 || cmd.Process.Pid == spare {
		t.Errorf("exit code %d, want 143", code)
	}
	for program, want := range map[string]int{"no-such-program": 127, "/etc/passwd": 126} {
		f.spare()
		cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ()}, program)
		if err != nil {
			t.Fatal(err)
		}
		if out, code := f.run(cmd, f.Start); code != want || !strings.Contains(out, program) {
			t.Errorf("%s: exit code %d, want %d: %s", program, code, want, out)
		}
	}
}

// Commands that start at once each get a process of their own.
func TestSpareInABurst(t *testing.T) {
	f, _ := openSpare(t)
	var started []*exec.Cmd
	pids := map[int]bool{}
	for i := range 8 {
		cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ()}, "sh", "-c", fmt.Sprintf("exit %d", i))
		if err == nil {
			err = f.Start(cmd)
		}
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, cmd)
		pids[cmd.Process.Pid] = true
	}
	for i, cmd := range started {
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != i {
			t.Errorf("command %d: exit code %d", i, code)
		}
	}
	if len(pids) != len(started) {
		t.Errorf("%d processes for %d commands", len(pids), len(started))
	}
}

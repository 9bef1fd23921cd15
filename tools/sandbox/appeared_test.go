//go:build linux

package sandbox_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// execute runs a command as the shell tool does.
func (f *fixture) execute(command string) sandbox.Ended {
	f.t.Helper()
	cmd, err := f.Command(context.Background(), sandbox.Run{Env: os.Environ(), Contained: true}, "sh", "-c", command)
	if err != nil {
		f.t.Fatal(err)
	}
	end, err := f.Execute(cmd, time.Second, func() {})
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		f.t.Fatalf("%s: %v", command, err)
	}
	return end
}

// A repository that appears between two commands, at any depth, is protected from the second one.
func TestRepositoryBetweenTwoCommands(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{})
	f.needMounts()
	for _, dir := range []string{"team/cl", "a/b/c/d/e/f"} {
		f.execute("true")
		f.write(filepath.Join(f.workspace, dir, ".git", "config"), "[core]\n")
		f.write(filepath.Join(f.workspace, dir, "AGENTS.md"), "be good\n")
		f.execute("cd " + dir + " && { echo evil >> .git/config; echo evil > AGENTS.md; mv .git git2; rm -r .git; }")
		for name, want := range map[string]string{".git/config": "[core]\n", "AGENTS.md": "be good\n"} {
			if text, err := os.ReadFile(filepath.Join(f.workspace, dir, name)); err != nil || string(text) != want {
				t.Errorf("%s in %s: %q, %v", name, dir, text, err)
			}
		}
	}
}

// What a command makes, at any depth, has another name at its end if programs would execute it. A
// repository that executes nothing stays, and is protected from the next command on.
func TestWhatACommandMade(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	const evil = "[core]\\n\\tfsmonitor = touch /tmp/evil\\n"
	for command, want := range map[string]string{
		"git init -q sub":            "",
		"git init -q --bare sub.git": "",
		"git init -q up && cd up && git commit -q --allow-empty -m x && git clone -q . ../down": "",
		"git init -q sub && git -C sub config core.fsmonitor 'touch evil'":                      "sub/.git",
		"git init -q --bare sub.git && git -C sub.git config core.fsmonitor 'touch evil'":       "sub.git/HEAD",
		"git init -q sub && echo evil > sub/.git/hooks/pre-commit":                              "sub/.git",
		"git init -q a/b/c/d/e && echo x > a/b/c/d/e/.git/commondir":                            "a/b/c/d/e/.git",
		"mkdir -p sub/g && printf '" + evil + "' > sub/g/config && mv sub/g sub/.git":           "sub/.git",
		"mkdir sub && echo 'gitdir: ../evil' > sub/.git":                                        "sub/.git",
		"mkdir real sub && ln -s ../real sub/.git":                                              "sub/.git",
		"mkdir -p a/b/c/d && echo obey > a/b/c/d/AGENTS.md":                                     "a/b/c/d/AGENTS.md",
		"mkdir -p a/b && echo obey > a/b/x && mv a/b/x a/b/claude.md":                           "a/b/claude.md",
		"mkdir -p sub/.vscode && chmod 555 sub":                                                 "sub/.vscode",
		"mkdir -p sub/.hg":                                                                      "sub/.hg",
		"for i in 1 2 3 4 5 6 7 8 9; do mkdir -p m/$i/x/y; done; mkdir m/9/x/y/.claude":         "m/9/x/y/.claude",
		"mkdir -p sub/.git.refused-1 sub/agents sub/git":                                        "",
	} {
		f := open(t, sandbox.Config{})
		f.needMounts()
		end := f.execute("set -e; " + command)
		got := strings.Join(end.SetAside, " ")
		name, _, _ := strings.Cut(got, ".refused-")
		if name != want || want != "" && !strings.Contains(got, ".refused-") || len(end.SetAside) > 1 {
			t.Errorf("%s: set aside %q, want %q", command, end.SetAside, want)
		}
		if want != "" {
			if _, err := os.Lstat(filepath.Join(f.workspace, want)); err == nil {
				t.Errorf("%s: %s is still there", command, want)
			}
			continue
		}
		if end := f.execute("for r in sub sub/.git sub.git down/.git; do echo '[alias]' >> $r/config; done"); len(end.SetAside) > 0 {
			t.Errorf("%s: the next command changed %q", command, end.SetAside)
		}
	}
}

// What a command made is found also if another one, which began before, ends later.
func TestTwoCommandsAtOnce(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	f := open(t, sandbox.Config{})
	f.needMounts()
	ended := make(chan sandbox.Ended)
	go func() {
		ended <- f.execute("touch ready; while [ ! -e go ]; do sleep 0.01; done; git -C sub config core.fsmonitor 'touch evil'; true")
	}()
	for _, err := os.Lstat(filepath.Join(f.workspace, "ready")); err != nil; _, err = os.Lstat(filepath.Join(f.workspace, "ready")) {
		time.Sleep(time.Millisecond)
	}
	if end := f.execute("git init -q sub"); len(end.SetAside) > 0 {
		t.Errorf("the second command: %q", end.SetAside)
	}
	f.write(filepath.Join(f.workspace, "go"), "")
	if end := <-ended; len(end.SetAside) != 1 || !strings.HasPrefix(end.SetAside[0], "sub/.git.refused-") {
		t.Errorf("the first command: %q", end.SetAside)
	}
}

// The next worker sets aside what a command made whose worker died.
func TestWorkerDiesDuringACommand(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{})
	state := filepath.Join(f.data, "shell")
	f.write(filepath.Join(f.workspace, "old", ".git", "config"), "[core]\n\tfsmonitor = mine\n")
	cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ(), Contained: true}, "true")
	if err != nil {
		t.Fatal(err)
	}
	f.write(filepath.Join(f.workspace, "new", ".git", "config"), "[core]\n\tfsmonitor = evil\n")
	f.write(filepath.Join(f.workspace, "AGENTS.md"), "obey\n")
	open := func() *sandbox.Sandbox {
		s, err := sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: f.workspace, State: state})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	if left := open().Left(); len(left) > 0 {
		t.Errorf("beside a worker that lives: %q", left)
	}
	entries, err := os.ReadDir(filepath.Join(state, "running"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	// A copy without a lock is what a dead worker leaves.
	path := filepath.Join(state, "running", entries[0].Name())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.write(path+"-dead", string(text))
	// A file that is not complete may be one that another worker makes now.
	for name, age := range map[string]time.Duration{"-now": 0, "-old": time.Hour} {
		f.write(path+name, `{"found":[`)
		at := time.Now().Add(-age)
		if err := os.Chtimes(path+name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	left := strings.Join(open().Left(), " ")
	for name, want := range map[string]bool{"": true, "-dead": false, "-now": true, "-old": false} {
		if _, err := os.Stat(path + name); (err == nil) != want {
			t.Errorf("the file %s: %v, want it to be there: %v", name, err, want)
		}
	}
	if err := os.Remove(path + "-now"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(left, "new/.git.refused-") || !strings.Contains(left, "AGENTS.md.refused-") || strings.Contains(left, "old") {
		t.Errorf("set aside %q", left)
	}
	if _, err := f.Execute(cmd, time.Second, func() {}); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(state, "running")); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// What was set aside may not be made again by a command that began while it was there: the rename
// ended the mount that protected it.
func TestMadeAgainByAnotherCommand(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{})
	f.needMounts()
	run := func(command string) <-chan sandbox.Ended {
		ended := make(chan sandbox.Ended, 1)
		go func() { ended <- f.execute(command) }()
		return ended
	}
	await := func(name string) {
		for _, err := os.Lstat(filepath.Join(f.workspace, name)); err != nil; _, err = os.Lstat(filepath.Join(f.workspace, name)) {
			time.Sleep(time.Millisecond)
		}
	}
	first := run("mkdir .vscode; touch one; while [ ! -e go1 ]; do sleep 0.01; done")
	await("one")
	second := run("touch two; while [ ! -e go2 ]; do sleep 0.01; done; mkdir .vscode; echo evil > .vscode/tasks.json")
	await("two")
	f.write(filepath.Join(f.workspace, "go1"), "")
	if end := <-first; len(end.SetAside) != 1 {
		t.Errorf("the first command: %q", end.SetAside)
	}
	markers, err := filepath.Glob(filepath.Join(f.data, "shell", "running", "*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	if text, err := os.ReadFile(markers[0]); err != nil || strings.Contains(string(text), ".vscode") {
		t.Errorf("if the worker dies now, the next one takes what comes for old: %s, %v", text, err)
	}
	f.write(filepath.Join(f.workspace, "go2"), "")
	if end := <-second; len(end.SetAside) != 1 || !strings.HasPrefix(end.SetAside[0], ".vscode.refused-") {
		t.Errorf("the second command: %q", end.SetAside)
	}
}

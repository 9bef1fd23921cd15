//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/modes"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// git runs git outside of the sandbox, as a person does.
func (f *fixture) git(dir string, args ...string) {
	f.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@localhost"}, args...)...)
	cmd.Dir = filepath.Join(f.workspace, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

// A repository that has just appeared is protected whatever its form: in a package, of a worktree or a
// submodule with the hooks of another one, with shared parts, or moved there.
func TestProtectsEachFormOfARepository(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	f := open(t, sandbox.Config{})
	f.needMounts()
	deny := func(command string) {
		t.Helper()
		if out, code := f.sh(command); code == 0 {
			t.Errorf("%s: %s", command, out)
		}
	}
	for _, dir := range []string{"team/cl", "node_modules/x"} {
		f.git("", "init", "-q", dir)
		deny("git -C " + dir + " config core.fsmonitor evil")
		deny("mv " + dir + " moved && echo evil >> moved/.git/config")
	}
	f.git("team/cl", "config", "core.hooksPath", "scripts")
	f.git("team/cl", "commit", "-qm", "x", "--allow-empty")
	f.git("team/cl", "worktree", "add", "-q", "../tree")
	for _, dir := range []string{"cl", "tree"} {
		deny("echo evil > team/" + dir + "/scripts/pre-commit")
	}
	f.git("", "init", "-q", "--separate-git-dir", "store", "linked")
	deny("git -C linked config core.fsmonitor evil")
	f.write(filepath.Join(f.workspace, "split/HEAD"), "ref: refs/heads/main\n")
	f.write(filepath.Join(f.workspace, "split/commondir"), "../store\n")
	deny("echo /tmp/evil > split/commondir")
	if err := os.Rename(filepath.Join(f.workspace, "team"), filepath.Join(f.workspace, "renamed")); err != nil {
		t.Fatal(err)
	}
	deny("git -C renamed/cl config core.fsmonitor evil")
}

// Whatever a command makes, no repository that executes something is left at its end, in the old
// place, in the new one or below.
func TestLeavesNoRepositoryThatExecutes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	evil := func(dir string) string {
		return "git init -q " + dir + " && git -C " + dir + " config core.fsmonitor evil"
	}
	const bare = "git init -q --bare store && git -C store config core.fsmonitor evil"
	for command, want := range map[string]string{
		"mkdir -p a/b && " + evil("a/b/c"):                                                   "a/b/c/.git",
		evil("x") + " && mkdir y && mv x y/z":                                                "y/z/.git",
		"mkdir -p .vscode/x && " + evil(".vscode/x"):                                         ".vscode",
		"mkdir -p .vscode/.idea/.zed && cd .vscode/.idea/.zed && " + evil("x"):               ".vscode",
		bare + " && cd store && " + evil("x"):                                                "store/HEAD",
		bare + " && mkdir sub && ln -s ../store sub/.git":                                    "store/HEAD sub/.git",
		bare + " && mkdir s && cp store/HEAD s && echo ../store > s/commondir":               "s/HEAD store/HEAD",
		"mkdir node_modules && cd node_modules && " + evil("x") + " && touch x/AGENTS.md":    "node_modules/x/.git",
		"git init -q x && rm -r x/.git/hooks && mkdir h && ln -s ../../h x/.git/hooks":       "x/.git",
		"git init -q x && ln x/.git/config later":                                            "x/.git",
		"mkdir -p a/x && " + evil("a/x") + " && chmod 0300 a/x a":                            "a/x/.git",
		"mkdir -p a/x && " + evil("a/x") + " && chmod 0400 a/x a":                            "a/x/.git",
		bare + " && chmod 0400 store":                                                        "store/HEAD",
		"mkdir -p a/.GIT/x a/.VsCode":                                                        "a/.VsCode",
		"(setsid sleep 60 > /dev/null 2>&1 &) ; " + evil("x"):                                "x/.git",
		evil("x") + " && rm -rf x && git init -q y && mkdir -p src/git .github node_modules": "",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			f := open(t, sandbox.Config{})
			f.needMounts()
			modes.Obey(t)
			end := f.execute("set -e; " + command)
			var names []string
			for _, name := range end.SetAside {
				name, _, _ = strings.Cut(name, ".refused-")
				names = append(names, name)
			}
			if got := strings.Join(names, " "); got != want || len(end.Unsafe) > 0 {
				t.Errorf("%s: set aside %q, want %q; %q", command, got, want, end.Unsafe)
			}
			err := filepath.WalkDir(f.workspace, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() && sandbox.WouldBeGitDir(path, "") {
					if text, _ := os.ReadFile(filepath.Join(path, "config")); len(text) == 0 || strings.Contains(string(text), "evil") {
						t.Errorf("%s: %s is left", command, path)
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if again := f.execute("true"); len(again.SetAside) > 0 {
				t.Errorf("%s: the next command: %+v", command, again)
			}
		})
	}
}

// What a command makes while others turn directories into links and remove them is renamed in the
// workspace, never behind the links, and no command fails for that.
func TestRenamesNothingBehindLinks(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{})
	f.needMounts()
	person := filepath.Join(f.data, "person")
	f.write(filepath.Join(person, ".hg/hgrc"), "fine\n")
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for j := range 5 {
				f.execute(fmt.Sprintf("mkdir -p d%d-%d/.hg; for k in 1 2 3 4; do mkdir -p gone/.hg; rm -rf gone; ln -s %s gone; rm gone; done; "+
					"touch ran-%d-%d", i, j, person, i, j))
			}
		})
	}
	running.Wait()
	if ran, _ := filepath.Glob(filepath.Join(f.workspace, "ran-*")); len(ran) != 20 {
		t.Errorf("%d commands ran", len(ran))
	}
	left, _ := filepath.Glob(filepath.Join(f.workspace, "d*/.hg"))
	if aside, _ := filepath.Glob(filepath.Join(f.workspace, "d*/.hg.refused-*")); len(left) > 0 || len(aside) != 20 {
		t.Errorf("%q are left, %d were set aside", left, len(aside))
	}
	if _, err := os.Stat(filepath.Join(person, ".hg/hgrc")); err != nil {
		t.Error(err)
	}
}

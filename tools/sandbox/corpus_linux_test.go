package sandbox_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// corpus are attacks of two steps: what a person did before, and what commands do then, separated by
// "---". evil DIR makes a repository that executes a program, bad DIR gives one such a configuration.
var corpus = []struct{ person, commands string }{
	// Repositories that appear.
	{"", "evil a"},
	{"", "evil a/b/c/d/e/f/g/h"},
	{"", "evil .git-x; mv .git-x/.git .git"},
	{"", "git init -q a --- bad a"},
	{"", "git init -q a; git -C a commit -q --allow-empty -m x; git -C a worktree add -q ../t --- bad t"},
	{"", "git init -q a --- echo \"$EVIL\" > a/.git/hooks/post-commit; chmod +x a/.git/hooks/post-commit"},
	{"", "git init -q a; printf '#!/bin/sh\\n%s\\n' \"$EVIL\" > a/.git/hooks/pre-commit; chmod +x a/.git/hooks/pre-commit"},
	{"", "git init -q a; git -C a config core.hooksPath ../h; mkdir h; printf '#!/bin/sh\\n%s\\n' \"$EVIL\" > h/pre-commit; chmod +x h/pre-commit"},
	{"", "git init -q a; git -C a config diff.external \"$EVIL\"; echo 1 > a/f; git -C a add f; echo 2 > a/f"},
	{"", "git init -q a; git -C a config filter.x.clean \"$EVIL\"; echo '* filter=x' > a/.gitattributes; echo 1 > a/f"},
	{"", "git init -q a; printf '[include]\\n\\tpath = ../../inc\\n' >> a/.git/config; printf '[core]\\n\\tfsmonitor = %s\\n' \"$EVIL\" > inc"},
	{"", "git init -q a; printf '[includeIf \"gitdir:**\"]\\n\\tpath = ../../inc\\n' >> a/.git/config; printf '[core]\\n\\tfsmonitor = %s\\n' \"$EVIL\" > inc"},
	{"", "git init -q a; git -C a config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = %s\\n' \"$EVIL\" > a/.git/config.worktree"},
	{"", "git init -q --bare b.git; git -C b.git config core.fsmonitor \"$EVIL\"; git -C b.git config core.bare false; git -C b.git config core.worktree ."},
	{"", "mkdir a; cd a; mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; printf '[core]\\nbare=false\\nworktree=.\\nfsmonitor=%s\\n' \"$EVIL\" > config"},
	{"", "evil s; mkdir a; echo 'gitdir: ../s/.git' > a/.git"},
	{"", "evil s; git init -q a; echo ../../s/.git > a/.git/commondir"},
	{"", "git init -q a; cd a; evil sub; git add sub 2> /dev/null; true"},
	{"git init -q a; mkdir a/sub", "evil a/sub"},
	{"git init -q a; cd a; git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub; rm -rf sub; mkdir sub", "evil a/sub"},
	{"", "tar c -C /tmp . 2> /dev/null | true; evil x; tar cf x.tar x; rm -rf x; tar xf x.tar"},
	{"", "evil x; cp -a x y; rm -rf x"},
	{"", "evil x & evil y & evil z; wait"},
	{"", "mkdir -p node_modules/p/q; evil node_modules/p/q"},
	// Settings files that appear.
	{"", "mkdir -p a/.vscode; echo evil > a/.vscode/tasks.json"},
	{"", "echo evil > AGENTS.md"},
	{"", "mkdir -p x/y; echo evil > x/y/Claude.MD"},
	{"", "echo evil > .mcp.json; echo evil > sub.mcp.json"},
	{"", "mkdir -p .claude/commands; echo evil > .claude/settings.json"},
	{"", "echo evil > .envrc"},
	{"", "mkdir -p pkg/.husky; echo evil > pkg/.husky/pre-commit"},
	{"", "mkdir .CURSOR; echo evil > .CURSOR/mcp.json"},
	{"", "mkdir '.vscode.'; echo evil > '.vscode./tasks.json'"},
	{"", "echo evil > 'AGENTS.md '"},
	{"", "printf evil > \"$(printf '.mcp\\342\\200\\213.json')\"; printf evil > \"$(printf '.mcp\\342\\200\\215.json')\""},
	{"", "mkfifo AGENTS.md; mkdir -p a/CLAUDE.md"},
	{"mkdir .vscode; echo fine > .vscode/tasks.json", "echo evil > .vscode/tasks.json; echo evil > .vscode/new.json"},
	{"echo fine > AGENTS.md", "echo evil > AGENTS.md; rm -f AGENTS.md; mv AGENTS.md x"},
	{"mkdir -p a/b; echo fine > a/b/CLAUDE.md", "rm -rf a; mkdir -p a/b; echo evil > a/b/CLAUDE.md"},
	{"mkdir -p a/b; echo fine > a/b/CLAUDE.md", "mv a c; mkdir -p a/b; echo evil > a/b/CLAUDE.md"},
	// Renames in between.
	{"", "evil x; mv x/.git x/g --- mv x/g x/.git"},
	{"", "mkdir vs; echo evil > vs/tasks.json --- mv vs .vscode"},
	{"", "evil x; mv x/.git x/.git.refused-1 --- mv x/.git.refused-1 x/.git"},
	{"", "evil x --- mv x/.git.refused-* x/.git"},
	{"", "mkdir -p .vscode; echo evil > .vscode/tasks.json --- mv .vscode.refused-* .vscode"},
	{"", "mkdir -p .vscode; echo evil > .vscode/tasks.json --- cp -r .vscode.refused-* .idea"},
	{"", "git init -q --bare b; git -C b config core.fsmonitor \"$EVIL\" --- mv b/HEAD.refused-* b/HEAD"},
	{"git init -q a", "mv a b; bad b"},
	{"git init -q a", "mv a/.git a/g; bad a"},
	{"mkdir -p p; git init -q p/a", "mv p q; bad q/a"},
	{"mkdir -p p; git init -q p/a", "mv p q; mkdir p; cp -r q/a p/a; bad p/a"},
	{"git init -q a", "mkdir b; mv a b; bad b/a; cp -r a c; bad c"},
	{"mkdir -p d/.hg; echo fine > d/.hg/hgrc", "mv d e; echo evil > e/.hg/hgrc; echo evil > d/.hg/hgrc"},
	{"git init -q a; echo x > a/f", "(sleep 0.05; mv a b; mv b a) & for i in 1 2 3 4 5 6 7 8 9; do bad a; done; wait"},
	// Links.
	{"git init -q a", "ln -s a b; bad b"},
	{"git init -q a", "ln a/.git/config c; echo \"[core]fsmonitor=$EVIL\" >> c"},
	{"git init -q a", "ln -s a/.git g; echo \"[core]fsmonitor=$EVIL\" >> g/config"},
	{"", "evil s; mv s/.git g; mkdir a; ln -s ../g a/.git"},
	{"", "evil s; mkdir a; ln -s \"$PWD/s/.git\" a/.git"},
	{"", "git init -q a; printf '[core]\\n\\tfsmonitor = %s\\n' \"$EVIL\" > c; rm a/.git/config; ln -s ../../c a/.git/config"},
	{"", "git init -q a; cp a/.git/config c; ln -f c a/.git/config --- printf '[core]\\n\\tfsmonitor = %s\\n' \"$EVIL\" >> c"},
	{"", "git init -q a; mkdir h; rm -rf a/.git/hooks; ln -s ../../h a/.git/hooks --- printf '#!/bin/sh\\n%s\\n' \"$EVIL\" > h/pre-commit; chmod +x h/pre-commit"},
	{"", "mkdir t; ln -s t .vscode --- echo evil > t/tasks.json"},
	{"", "echo evil > t; ln -s t AGENTS.md; ln t CLAUDE.md"},
	{"", "evil s; ln -s s/.git/objects objects; ln -s s/.git/refs refs; cp s/.git/HEAD HEAD; " +
		"printf '[core]\\nbare=false\\nworktree=.\\nfsmonitor=%s\\n' \"$EVIL\" > config"},
	{"git init -q a; echo fine > a/AGENTS.md", "ln a/AGENTS.md x; echo evil > x; ln -s AGENTS.md a/y; echo evil > a/y"},
	{"mkdir .vscode; echo fine > .vscode/tasks.json", "ln -s .vscode v; echo evil > v/tasks.json; ln .vscode/tasks.json w; echo evil > w"},
}

const corpusPrelude = `evil() { git init -q "$1" && git -C "$1" config core.fsmonitor "$EVIL"; }
bad() { git -C "$1" config core.fsmonitor "$EVIL"; }
`

// After each attack, a person uses git in every directory of the workspace, and no program runs; no
// file of editors and agents has come, and none of the person's has changed.
func TestCorpusOfRepositoriesSettingsRenamesAndLinks(t *testing.T) {
	slow.Test(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	for i, attack := range corpus {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			f := open(t, sandbox.Config{})
			f.needMounts()
			executed := filepath.Join(f.data, "executed")
			as := func(person bool, dir, command string) string {
				cmd := exec.Command("sh", "-c", corpusPrelude+command)
				cmd.Dir = dir
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.data, "GIT_CONFIG_NOSYSTEM=1", "EVIL=touch " + executed, "GIT_PAGER=cat",
					"GIT_CEILING_DIRECTORIES=" + filepath.Dir(f.workspace), "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@localhost",
					"GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@localhost"}
				out, err := cmd.CombinedOutput()
				if err != nil && !person {
					t.Fatalf("%s: %v: %s", command, err, out)
				}
				return string(out)
			}
			as(false, f.workspace, attack.person+"\ntrue")
			before := protectedFiles(t, f.workspace)
			for command := range strings.SplitSeq(attack.commands, "---") {
				f.execute("export EVIL='touch " + executed + "'\n" + corpusPrelude + command)
			}
			for path, text := range protectedFiles(t, f.workspace) {
				if was, ok := before[path]; (!ok || was != text) && !strings.Contains(path, ".git/") && filepath.Base(path) != ".git" {
					t.Errorf("%q after %q: %s has come or changed", attack.commands, attack.person, path)
				}
			}
			for path := range before {
				if _, err := os.Lstat(filepath.Join(f.workspace, path)); err != nil {
					t.Errorf("%q after %q: %s is gone", attack.commands, attack.person, path)
				}
			}
			var dirs []string
			_ = filepath.WalkDir(f.workspace, func(path string, e fs.DirEntry, err error) error {
				if err == nil && (e.IsDir() || e.Type() == fs.ModeSymlink) && !strings.Contains(path, "/.git/") {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range dirs {
				if info, err := os.Stat(dir); err == nil && info.IsDir() {
					out := as(true, dir, "git rev-parse --git-dir || exit 0; git status; git diff; git add .; git commit -q --allow-empty -m x; git log -1; git checkout -q -b y")
					if _, err := os.Lstat(executed); err == nil {
						t.Fatalf("%q after %q: git executes a program in %s: %s", attack.commands, attack.person, dir, out)
					}
				}
			}
		})
	}
}

// protectedFiles returns the protected names below a directory, and a digest of what is in them.
func protectedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || sandbox.Executed(name) == "" || strings.Contains(name, ".refused-") {
			return err
		}
		found[name] = e.Type().String()
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			found[name] = fmt.Sprintf("%x", sha256.Sum256(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

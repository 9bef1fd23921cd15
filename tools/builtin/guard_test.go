//go:build unix

package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// A write that a program would execute later is refused by each way to name the path.
func TestWriteCannotBecomeExecution(t *testing.T) {
	b := newFixture(t, builtin.Config{Advise: func(sandbox.Refusal) string { return "the operator's advice" }})
	b.file(".git/config", "[core]\n\thooksPath = githooks\n")
	b.file(".git/hooks/pre-commit.sample", "x\n")
	b.file("sub/.git/config", "[core]\n")
	b.file("bare.git/HEAD", "ref: refs/heads/main\n")
	b.file("bare.git/config", "[core]\n")
	b.file("half/HEAD", "ref: refs/heads/main\n")
	for _, dir := range []string{"bare.git/objects", "bare.git/refs", "half/refs", "plain"} {
		must(t, os.MkdirAll(filepath.Join(b.dir, dir), 0o755))
	}
	must(t, os.Symlink(".git", filepath.Join(b.dir, "link")))
	must(t, os.Symlink("../.git/hooks", filepath.Join(b.dir, "plain/hooks")))
	must(t, os.Link(filepath.Join(b.dir, ".git/config"), filepath.Join(b.dir, "hard")))
	for _, path := range []string{
		".git/hooks/pre-commit", ".git/config", ".git/new/deep/file", "./.git/../.git/config", "sub/.git/hooks/post-checkout",
		".git", ".GIT/config", ".Git/hooks/x", ".git./config", ".git /config", ".g\u200cit/config", "git~1/config", ".git:x", "new/.git/config",
		"link/config", "link/hooks/x", "plain/hooks/pre-commit", filepath.Join(b.dir, ".git/config"), "hard",
		"bare.git/config", "bare.git/hooks/x", "half/objects/x", ".hg/hgrc", ".jj/repo/config",
		".vscode/tasks.json", "sub/.VSCode/Settings.json", ".mcp.json", ".claude/settings.json", ".vscode/mcp.json", ".gemini/settings.json", ".codex/config.toml",
		".zed/tasks.json", ".devcontainer/devcontainer.json", "a/.husky/pre-commit", ".kiro/x", ".idea/workspace.xml", ".windsurf/x", ".roo/mcp.json", "opencode.json", ".envrc",
		"AGENTS.md", "sub/agents.MD", "skills/x/SKILL.md", ".agents/skills/x/run.sh", "CLAUDE.md", ".qwen/settings.json", "sub/.amazonq/mcp.json", ".pre-commit-config.yaml", ".clinerules",
		"githooks/pre-commit",
	} {
		b.fails("write_file", args{"path": path, "content": "evil"})
		b.fails("append_file", args{"path": path, "content": "evil"})
		b.fails("edit_file", args{"path": path, "old_text": "[core]", "new_text": "evil"})
	}
	err := filepath.WalkDir(b.dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "evil") {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		}
		return err
	})
	must(t, err)
	b.fails("write_file", args{"path": ".git/hooks/x", "content": "x"}, "the operator's advice")
	for _, path := range []string{".gitignore", ".github/workflows/x.yml", "git/config", "a.git/x", "half/x", "githooks2/x", "plain/HEAD", ".gitmodules"} {
		b.ok("write_file", args{"path": path, "content": "fine"})
	}
}

func TestOperatorAllowsGuardedWrites(t *testing.T) {
	dir := t.TempDir()
	b := newFixture(t, builtin.Config{Workspace: dir, Unguarded: []string{filepath.Join(dir, ".git/config")}})
	b.ok("write_file", args{"path": ".git/config", "content": "x"})
	b.fails("write_file", args{"path": ".git/hooks/x", "content": "x"}, "refused")
}

// A call that a person approved may write a repository.
func TestApprovalAllowsGuardedWrites(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	b.file(".git/config", "")
	write := args{"path": ".git/hooks/x", "content": "x"}
	run := args{"command": "mkdir -p .git/hooks && echo x >> .git/config && touch .git/hooks/y"}
	sb, err := sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: b.dir})
	must(t, err)
	defer sb.Close()
	if res := b.run(t.Context(), "shell", run); !res.IsError && sb.Protection().Protected {
		t.Errorf("a command without an approval writes .git: %+v", res)
	}
	b.fails("write_file", write, "refused")
	approved := tools.WithApproval(t.Context())
	for tool, a := range map[string]args{"write_file": write, "shell": run} {
		if res := b.run(approved, tool, a); res.IsError {
			t.Errorf("%s: %s", tool, res.ForLLM)
		}
	}
}

// The data directory of the worker may be in the workspace, but no tool shows it.
func TestHidesTheDataDirectory(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, ".local", "data")
	must(t, os.MkdirAll(data, 0o700))
	t.Chdir(dir)
	b := newFixture(t, builtin.Config{Workspace: dir, Hide: []string{".local/data"}}) // below the working directory
	b.file(".local/data/credential", "secret of the bus\n")
	b.file(".local/other", "fine\n")
	must(t, os.Symlink(".local/data", filepath.Join(dir, "link")))
	for _, path := range []string{".local/data/credential", "link/credential", filepath.Join(data, "credential")} {
		b.fails("read_file", args{"path": path}, "data directory")
		b.fails("grep", args{"pattern": "secret", "path": path}, "data directory")
		b.fails("write_file", args{"path": path, "content": "x"}, "data directory")
	}
	for _, path := range []string{"link/new", "link/new/file", ".local/data/new"} {
		b.fails("write_file", args{"path": path, "content": "x"}, "data directory")
		b.fails("append_file", args{"path": path, "content": "x"}, "data directory")
	}
	b.fails("list_dir", args{"path": "link"}, "data directory")
	for tool, a := range map[string]args{"grep": {"pattern": "secret|fine"}, "glob": {"pattern": "**/cred*"}, "list_dir": {"recursive": true}} {
		if got := b.ok(tool, a); strings.Contains(got, "credential") || strings.Contains(got, "secret of") {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

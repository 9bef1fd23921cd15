package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// executed are the names of directories and files whose content programs execute when a person
// merely enters or opens the workspace, outside of the sandbox: version control (hooks, and
// programs that the configuration names), editors and agents, and the files whose instructions
// agents follow. A write there would become an execution. Files that a person executes on purpose (Makefile, package.json) are not here.
var executed = []string{
	".git", "git~1", ".hg", ".jj",
	".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".husky", ".envrc",
	".mcp.json", ".claude", ".cursor", ".gemini", ".codex", ".kiro", ".windsurf", ".roo", ".continue", ".opencode", "opencode.json", "opencode.jsonc",
	".qwen", ".amazonq", ".junie", ".trae", ".cline", ".copilot", ".aider.conf.yml", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml",
	".agents", "agents.md", "skill.md", "claude.md", "gemini.md", "qwen.md", ".clinerules", ".cursorrules", ".windsurfrules", ".goosehints",
}

// versionControl is how many of executed are repositories.
const versionControl = 4

// Executed returns the first name in a path whose content programs execute, or "".
func Executed(path string) string {
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if slices.Contains(executed, fold(name)) {
			return name
		}
	}
	return ""
}

// fold returns the name as file systems that ignore case, trailing dots, streams and
// invisible characters see it (Windows and macOS).
func fold(name string) string {
	name, _, _ = strings.Cut(name, ":")
	name = strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name)
	return strings.ToLower(strings.TrimRight(name, ". "))
}

// WouldBeGitDir reports whether git would use dir as a repository if it contained next. An empty
// next asks whether it does.
func WouldBeGitDir(dir, next string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil || strings.EqualFold(name, next)
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

var hooksPath = lazyregexp.New(`(?i)\bhookspath\s*=\s*"?([^"\r\n]+)`)

// HooksPaths returns where git looks for hooks instead of .git/hooks, according to the repository
// in dir, or to that of which dir is a worktree or a submodule.
func HooksPaths(dir string) (paths []string) {
	for _, git := range gitDirs(dir) {
		for _, name := range []string{"config", "config.worktree"} {
			for _, match := range hooksPath.FindAllStringSubmatch(readSmall(filepath.Join(git, name)), -1) {
				paths = append(paths, resolveIn(dir, match[1]))
			}
		}
	}
	return paths
}

// gitDirs returns the directories whose configuration git uses in dir.
func gitDirs(dir string) []string {
	git := filepath.Join(dir, ".git")
	if to, ok := strings.CutPrefix(readSmall(git), "gitdir:"); ok {
		git = resolveIn(dir, to)
	}
	if common := readSmall(filepath.Join(git, "commondir")); common != "" {
		return []string{git, resolveIn(git, common)}
	}
	return []string{git}
}

// resolveIn returns the path that a text in dir names.
func resolveIn(dir, path string) string {
	if path = strings.TrimSpace(path); filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// readSmall returns the begin of a regular file, or nothing. It does not wait for a pipe.
func readSmall(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, 1<<20)) // what cannot be read, git cannot read either
	return string(text)
}

// isSettings reports whether programs execute the content of a name that is no repository.
func isSettings(name string) bool { return slices.Contains(executed[versionControl:], fold(name)) }

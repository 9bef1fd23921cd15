package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil && !strings.EqualFold(name, next) {
			return false
		}
	}
	return true
}

var hooksPath = regexp.MustCompile(`(?i)\bhookspath\s*=\s*"?([^"\r\n]+)`)

// HooksPaths returns where git looks for hooks instead of .git/hooks, according to the repository
// in dir.
func HooksPaths(dir string) (paths []string) {
	for _, name := range []string{"config", "config.worktree"} {
		config := filepath.Join(dir, ".git", name)
		if info, err := os.Lstat(config); err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, _ := os.ReadFile(config)
		for _, match := range hooksPath.FindAllStringSubmatch(string(text), -1) {
			path := strings.TrimSpace(match[1])
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			paths = append(paths, path)
		}
	}
	return paths
}

// isSettings reports whether programs execute the content of a name that is no repository.
func isSettings(name string) bool { return slices.Contains(executed[versionControl:], fold(name)) }

package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
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

// protection finds what commands must not change in the writable directories.
type protection struct {
	allowed []string // that the operator lets commands write

	mu    sync.Mutex
	found []string
	at    time.Time // of the last scan
}

// rescan is how often the worker looks for what is new below the top of the writable directories.
const rescan = 10 * time.Second

// maxScanned bounds the directory entries that one scan examines.
const maxScanned = 5_000

// find returns what programs execute in dirs, as far as it exists.
func (p *protection) find(dirs []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < rescan && !p.isNew(dirs) {
		return p.found
	}
	before := p.found
	p.found, p.at = nil, time.Now()
	left := maxScanned
	for _, dir := range dirs {
		p.scan(dir, 3, &left)
	}
	for _, path := range before { // a command may have made so much that the scan ended before it
		if _, err := os.Lstat(path); err == nil && !slices.Contains(p.found, path) {
			p.found = append(p.found, path)
		}
	}
	return p.found
}

// isNew reports whether the top of a directory has something that the last scan did not find.
func (p *protection) isNew(dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(executed, func(name string) bool {
			path := filepath.Join(dir, name)
			_, err := os.Lstat(path)
			return err == nil && !slices.Contains(p.allowed, path) && !slices.Contains(p.found, path)
		})
	})
}

// scan adds what is in dir and, depth levels below it, without following links.
func (p *protection) scan(dir string, depth int, left *int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	if WouldBeGitDir(dir, "") { // a bare repository
		p.add(dir)
		return
	}
	for _, entry := range entries {
		if *left--; *left < 0 {
			return
		}
		path := filepath.Join(dir, entry.Name())
		switch {
		case Executed(entry.Name()) != "":
			p.add(path)
			if entry.Name() != ".git" {
				continue
			}
			for _, hooks := range HooksPaths(dir) {
				if within(hooks, dir) && hooks != dir {
					_ = os.MkdirAll(hooks, 0o755) // otherwise a command could
					p.add(hooks)
				}
			}
		case entry.IsDir() && depth > 0 && entry.Name() != "node_modules":
			p.scan(path, depth-1, left)
		}
	}
}

func (p *protection) add(path string) {
	if !slices.Contains(p.allowed, path) && !slices.Contains(p.found, path) {
		p.found = append(p.found, path)
	}
}

// settings returns what is at the top of the workspace and commands must not make. A repository
// they may make; it is protected from the next command on.
func (s *Sandbox) settings() (names []string) {
	if s.cfg.Mode == Off {
		return nil
	}
	entries, _ := os.ReadDir(s.cfg.Workspace) // without them, commands cannot make anything either
	for _, entry := range entries {
		if isSettings(entry.Name()) && !slices.Contains(s.cfg.Write, filepath.Join(s.cfg.Workspace, entry.Name())) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// isSettings reports whether programs execute the content of a name that is no repository.
func isSettings(name string) bool { return slices.Contains(executed[versionControl:], fold(name)) }

// setAside renames what a command made beside the settings from before it: a mount can protect
// only what exists.
func (s *Sandbox) setAside(before []string) (names []string) {
	for _, name := range s.settings() {
		if slices.Contains(before, name) {
			continue
		}
		path := filepath.Join(s.cfg.Workspace, name)
		to := path + ".refused-" + time.Now().UTC().Format("20060102T150405.000")
		if os.Rename(path, to) == nil {
			names = append(names, filepath.Base(to))
		}
	}
	return names
}

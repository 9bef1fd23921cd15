package builtin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

// Programs execute what these paths name when somebody merely enters or opens the workspace,
// outside of the sandbox. A write there would become an execution, so the write tools
// refuse it. Files that a person executes on purpose (Makefile, package.json, .husky), and
// files that their program asks about after each change (.envrc), are not here.
var (
	// guardedDirs are directories of version control: git, Mercurial and Jujutsu execute
	// hooks and programs that their configuration names.
	guardedDirs = []string{".git", "git~1", ".hg", ".jj"}
	// guardedFiles are the settings of editors and agents that start programs.
	guardedFiles = []string{
		".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json",
		".mcp.json", ".cursor/mcp.json", ".claude/settings.json", ".claude/settings.local.json",
	}
)

// guard returns an error if a write to the path would become an execution. The path is
// relative to the workspace and contains no symbolic links.
func (ws *workspace) guard(rel string) error {
	full := filepath.Join(ws.real, rel)
	if slices.ContainsFunc(ws.cfg.Unguarded, func(allowed string) bool { return inside(allowed, full) }) {
		return nil
	}
	names := strings.Split(filepath.ToSlash(rel), "/")
	for i, name := range names {
		names[i] = fold(name)
		if slices.Contains(guardedDirs, names[i]) {
			return guarded(rel, fmt.Sprintf("programs execute what is in %s", name))
		}
	}
	for i := range names {
		if slices.Contains(guardedFiles, strings.Join(names[i:], "/")) {
			return guarded(rel, "editors and agents start programs that it names")
		}
	}
	for dir, next := filepath.Dir(full), filepath.Base(full); inside(ws.real, dir); dir, next = filepath.Dir(dir), filepath.Base(dir) {
		if wouldBeGitDir(dir, next) {
			return guarded(rel, "git would use its directory as a repository, and execute what its configuration names")
		}
		if dir == ws.real {
			break
		}
	}
	return nil
}

func guarded(rel, reason string) error {
	return tools.Errorf(tools.CodeInvalidArguments, "access denied: writing %q is refused, because %s; only a setting of the worker allows it", filepath.ToSlash(rel), reason)
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

// wouldBeGitDir reports whether git would use dir as a repository if it contained next.
func wouldBeGitDir(dir, next string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil && !strings.EqualFold(name, next) {
			return false
		}
	}
	return true
}

// inside reports whether path is dir or below it.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// openParent makes the directory of a file and opens it. It follows symbolic links once:
// what guard has seen is what it returns, even if a command changes the links meanwhile.
func (ws *workspace) openParent(rel string) (*os.Root, string, error) {
	dir, name := filepath.Split(rel)
	dir = filepath.Clean(dir)
	real, err := ws.realDir(dir)
	if err == nil {
		err = ws.guard(filepath.Join(real, name))
	}
	if err == nil {
		err = durable.Dir{Root: ws.root}.MkdirAll(real, 0o755)
	}
	if err != nil {
		return nil, "", err
	}
	parent, err := ws.root.OpenRoot(real)
	if err != nil {
		return nil, "", err
	}
	opened, err := parent.Stat(".")
	if err == nil {
		var seen os.FileInfo
		seen, err = os.Lstat(filepath.Join(ws.real, real))
		again, againErr := filepath.EvalSymlinks(filepath.Join(ws.real, real))
		if err == nil && (againErr != nil || again != filepath.Join(ws.real, real) || !os.SameFile(opened, seen)) {
			err = errChanged
		}
	}
	if err != nil {
		return nil, "", errors.Join(err, parent.Close())
	}
	return parent, name, nil
}

// realDir returns the directory without symbolic links, relative to the root. What does
// not exist yet has none.
func (ws *workspace) realDir(dir string) (string, error) {
	missing := ""
	for at := dir; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(filepath.Join(ws.real, at))
		switch {
		case err == nil:
			if _, err := ws.root.Stat(at); err != nil { // refuses links that lead out of the workspace
				return "", err
			}
			rel, err := filepath.Rel(ws.real, real)
			if err != nil || !filepath.IsLocal(rel) {
				return "", outside(dir)
			}
			return filepath.Join(rel, missing), nil
		case !errors.Is(err, os.ErrNotExist) || at == ".":
			return "", err
		}
		if _, err := ws.root.Lstat(at); err == nil {
			return "", fmt.Errorf("%q is a symbolic link to nothing", at)
		}
		missing = filepath.Join(filepath.Base(at), missing)
	}
}

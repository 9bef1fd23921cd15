package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// guard returns an error if a write to the path would become an execution. The path is
// relative to the workspace and contains no symbolic links.
func (ws *workspace) guard(rel string) error {
	full := filepath.Join(ws.real, rel)
	if slices.ContainsFunc(ws.cfg.Unguarded, func(allowed string) bool { return Inside(allowed, full) }) {
		return nil
	}
	refuse := func(reason string) error {
		return tools.Errorf(tools.CodeInvalidArguments, "access denied: writing %q is refused, because %s%s", filepath.ToSlash(rel),
			reason, ws.advice(sandbox.Protected))
	}
	if name := sandbox.Executed(rel); name != "" {
		return refuse("programs execute what is in " + name)
	}
	for dir, next := filepath.Dir(full), filepath.Base(full); Inside(ws.real, dir); dir, next = filepath.Dir(dir), filepath.Base(dir) {
		if sandbox.WouldBeGitDir(dir, next) {
			return refuse("git would use its directory as a repository, and execute what its configuration names")
		}
		if slices.ContainsFunc(sandbox.HooksPaths(dir), func(hooks string) bool { return Inside(hooks, full) }) {
			return refuse("git executes the hooks there")
		}
		if dir == ws.real {
			break
		}
	}
	return nil
}

// Inside reports whether path is dir or below it.
func Inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// openParent makes the directory of a file and opens it. It follows symbolic links once:
// what guard has seen is what it returns, even if a command changes the links meanwhile.
func (ws *workspace) openParent(ctx context.Context, rel string) (*os.Root, string, error) {
	dir, name := filepath.Split(rel)
	dir = filepath.Clean(dir)
	real, err := ws.realDir(dir)
	if err == nil && !tools.Approved(ctx) {
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

package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/stevedore-bus/stevedore/tools"
)

// workspace is the directory that all tools share.
type workspace struct {
	cfg  Config
	root *os.Root
	dir  string // absolute
	real string // absolute, symbolic links resolved

	hide   []string // the directories of Config.Hide in the workspace
	hidden []fs.FileInfo

	// edit is locked while a tool reads, changes and replaces a file: two edits of one
	// file in the same turn must not overwrite each other.
	edit sync.Mutex

	closeSandbox func() error // of the shell's own sandbox; may be nil
}

func (ws *workspace) close() error {
	err := ws.root.Close()
	if ws.closeSandbox != nil {
		err = errors.Join(err, ws.closeSandbox())
	}
	return err
}

func openWorkspace(cfg Config) (*workspace, error) {
	if cfg.Workspace == "" {
		return nil, errors.New("open workspace: no directory is configured")
	}
	dir, err := filepath.Abs(cfg.Workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", cfg.Workspace, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	ws := &workspace{cfg: cfg, root: root, dir: dir, real: real}
	for _, path := range cfg.Hide {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("hide %q: %w", path, err), root.Close())
		}
		path, err = filepath.EvalSymlinks(path)
		info, statErr := os.Stat(path)
		if err == nil && statErr == nil && path != real && Inside(real, path) {
			ws.hide, ws.hidden = append(ws.hide, path), append(ws.hidden, info)
		}
	}
	return ws, nil
}

// maxPathDepth is the most directories in a path. Each component of a path is resolved, and
// each new directory is synced, so a longer path would take minutes.
const maxPathDepth = 255

// rel returns the model's path relative to the root. It accepts an absolute path in the
// workspace. It does not resolve symbolic links; the root does.
func (ws *workspace) rel(path string) (string, error) {
	rel, err := ws.local(path)
	if err != nil || len(ws.hide) == 0 || rel == "." {
		return rel, err
	}
	full := filepath.Join(ws.real, rel)
	if real, err := ws.realDir(rel); err == nil { // also of a path whose end does not exist yet
		full = filepath.Join(ws.real, real)
	}
	if slices.ContainsFunc(ws.hide, func(dir string) bool { return Inside(dir, full) }) {
		return "", tools.Errorf(tools.CodeInvalidArguments, "access denied: path %q is in the data directory of the worker", path)
	}
	return rel, nil
}

// local does the part of rel that looks at the text only.
func (ws *workspace) local(path string) (string, error) {
	path = cmp.Or(path, ".")
	if strings.ContainsRune(path, 0) {
		return "", tools.Errorf(tools.CodeInvalidArguments, "path %q contains a zero byte", path)
	}
	local := filepath.Clean(path)
	if n := strings.Count(local, string(filepath.Separator)); n > maxPathDepth {
		return "", tools.Errorf(tools.CodeInvalidArguments, "path %q has %d directories; at most %d are allowed", tools.Excerpt(path, 80), n, maxPathDepth)
	}
	for _, base := range []string{ws.dir, ws.real} { // a relative path has no place below them
		if rel, err := filepath.Rel(base, local); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	if !filepath.IsLocal(local) {
		return "", outside(path)
	}
	return local, nil
}

func outside(path string) error {
	return tools.Errorf(tools.CodeInvalidArguments, "access denied: path %q is outside the workspace; use a path relative to the workspace", path)
}

// open opens a regular file for reading and never blocks. It checks the kind of file
// before it opens it, because opening some devices has an effect, and again after, in
// case the name now belongs to another file.
func (ws *workspace) open(path string) (*os.File, fs.FileInfo, error) {
	rel, err := ws.rel(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := ws.root.Stat(rel)
	if err == nil {
		err = ws.checkFile(info)
	}
	if err != nil {
		return nil, nil, ws.explain("read file", path, err)
	}
	f, info, err := ws.openIn(ws.root, rel)
	if err != nil {
		return nil, nil, ws.explain("read file", path, err)
	}
	return f, info, nil
}

// openIn opens name in dir for reading if it is a regular file.
func (ws *workspace) openIn(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = ws.checkFile(info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

var errSpecial = errors.New("it is not a regular file")

func (ws *workspace) checkFile(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w but a %s", errSpecial, kind(info.Mode()))
	case linkCount(info) > 1:
		return errors.New("it has more than one name (hard link), and the other may be outside the workspace")
	}
	return nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	}
	return "special file"
}

// explain returns an error for the model, without the host paths in the errors of
// package os.
func (ws *workspace) explain(op, path string, err error) error {
	if e, ok := errors.AsType[*tools.Error](err); ok {
		return e
	}
	if strings.Contains(err.Error(), "path escapes from parent") { // os has no sentinel for it
		return outside(path)
	}
	reason := err
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		reason = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		reason = e.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tools.Errorf(tools.CodeToolFailed, "failed to %s %q: file not found; use list_dir to list the directory", op, path)
	case errors.Is(err, fs.ErrPermission):
		return tools.Errorf(tools.CodeToolFailed, "failed to %s %q: permission denied", op, path)
	}
	return tools.Errorf(tools.CodeToolFailed, "failed to %s %q: %v", op, path, reason)
}

package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// before is what was there when a command began. Its file, whose lock this process holds, lets the
// next process examine what a command made whose worker died.
type before struct {
	marker
	file *os.File
}

// markers is the directory of these files, in the state.
const markers = "running"

// marker is the content of the file.
type marker struct {
	Found    []string `json:"found"`
	Closed   []string `json:"closed,omitempty"` // directories that the worker could not read
	Approved bool     `json:"approved"`         // the command may make and write repositories
}

// note stores what was there before a command.
func (s *Sandbox) note(ctx context.Context, found scan, approved bool) (*before, error) {
	b := &before{marker: marker{found.found, found.closed, approved}}
	dir := filepath.Join(s.cfg.State, markers)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		b.file, err = os.CreateTemp(dir, "")
	}
	if err == nil {
		err = durable.Lock(ctx, b.file) // another process that starts may look at it now
	}
	if err == nil {
		err = b.store()
	}
	if err != nil {
		b.forget()
		return nil, fmt.Errorf("sandbox: note what is there before a command: %w", err)
	}
	return b, nil
}

// store writes the file anew.
func (b *before) store() error {
	data, err := json.Marshal(b.marker)
	if err == nil {
		err = b.file.Truncate(0)
	}
	if err == nil {
		_, err = b.file.WriteAt(data, 0)
	}
	return err
}

func (b *before) forget() {
	if b.file != nil {
		_ = os.Remove(b.file.Name())
		_ = b.file.Close()
	}
}

// recover sets aside what commands made whose worker died.
func (s *Sandbox) recover() {
	dir := filepath.Join(s.cfg.State, markers)
	entries, _ := os.ReadDir(dir) // none without the directory
	for _, entry := range entries {
		file, err := os.OpenFile(filepath.Join(dir, entry.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		b := &before{file: file}
		if free, err := durable.TryLock(file); err != nil || !free { // its worker lives
			_ = file.Close()
			continue
		}
		info, err := file.Stat()
		switch decodeErr := json.NewDecoder(file).Decode(&b.marker); {
		case decodeErr == nil:
			end := s.setAside(b)
			s.left = append(s.left, append(end.SetAside, end.Unsafe...)...)
		case err != nil || time.Since(info.ModTime()) < time.Minute: // its worker makes it now
			_ = file.Close()
			continue
		}
		b.forget() // an old file that is not complete is of a command that did not start
	}
}

// setAside renames what programs execute and a command made: mounts protect only what exists. A
// repository that executes nothing stays.
func (s *Sandbox) setAside(b *before) (end Ended) {
	s.noting.Lock()
	defer s.noting.Unlock()
	now := s.protect.scan(s.writable())
	s.openUp(&now, b)
	for _, path := range now.found {
		if slices.Contains(b.Found, path) || b.Approved && !isSettings(filepath.Base(path)) {
			continue
		}
		name, err := s.disarm(path)
		if err != nil {
			end.Unsafe = append(end.Unsafe, fmt.Sprintf("programs execute what is in %s, which cannot be renamed (%v); remove it before you "+
				"use the workspace", s.shown(path), err))
		} else if name != "" {
			end.SetAside = append(end.SetAside, s.shown(name))
			s.befores.Range(func(_, running any) bool { // the rename ended its mount, so another command can make it again
				other := running.(*before)
				if i := slices.Index(other.Found, path); i >= 0 {
					other.Found = slices.Delete(other.Found, i, i+1)
					_ = other.store() // only a worker that dies needs it
				}
				return true
			})
		}
	}
	if now.missed != "" {
		end.Unsafe = append(end.Unsafe, fmt.Sprintf("the workspace has more than %d directories; those from %s on were not examined for "+
			"what programs execute", maxDirs, s.shown(now.missed)))
	}
	return end
}

// openUp makes readable what a command has made unreadable, and adds what is in it.
func (s *Sandbox) openUp(now *scan, b *before) {
	for i := 0; i < len(now.closed); i++ {
		path := now.closed[i]
		if slices.Contains(b.Closed, path) {
			continue
		}
		if dir, err := s.openBelow(path); err == nil {
			_ = dir.Close()
			more := s.look(path)
			now.found, now.closed = append(now.found, more.found...), append(now.closed, more.closed...)
		}
	}
}

// look examines one directory.
func (s *Sandbox) look(dir string) scan {
	p := protection{allowed: s.protect.allowed} // the scans of commands keep their listings
	return p.scan([]string{dir})
}

// disarm renames a path whose content programs execute. A renamed directory may contain such paths
// too, so disarm renames those as well. It returns the new name of path, or none if path is a
// repository in which git executes nothing.
func (s *Sandbox) disarm(path string) (name string, err error) {
	for work := []string{path}; len(work) > 0; work = work[1:] {
		from := work[0]
		if !isSettings(filepath.Base(from)) && executesNothing(from) {
			continue
		}
		bare := Executed(filepath.Base(from)) == ""
		if bare {
			from = filepath.Join(from, "HEAD") // a bare repository is none without it
		}
		to, err := s.renameAside(from)
		if errors.Is(err, os.ErrNotExist) { // the end of another command was faster
			continue
		} else if err != nil {
			return "", err
		}
		name = cmp.Or(name, to)
		if bare {
			to = filepath.Dir(to)
		}
		work = append(work, s.look(to).found...)
	}
	return name, nil
}

// renameAside gives a path a name that no program looks for.
func (s *Sandbox) renameAside(path string) (to string, err error) {
	dir, err := s.openBelow(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	name := filepath.Base(path)
	aside := name + ".refused-" + time.Now().UTC().Format("20060102T150405.000")
	if err = dir.Rename(name, aside); errors.Is(err, os.ErrPermission) { // the command made the directory read-only
		_ = dir.Chmod(".", 0o700)
		err = dir.Rename(name, aside)
	}
	return filepath.Join(filepath.Dir(path), aside), err
}

// openBelow opens a directory below a writable one, and makes the directories on the way readable. It
// follows no links, not even those that another command makes at the same time, so it never opens a
// directory outside of the workspace.
func (s *Sandbox) openBelow(path string) (*os.Root, error) {
	roots := s.writable()
	i := slices.IndexFunc(roots, func(root string) bool { return within(path, root) })
	if i < 0 {
		return nil, os.ErrNotExist
	}
	at, err := os.OpenRoot(roots[i])
	rel, _ := filepath.Rel(roots[i], path)
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if err != nil || name == "." {
			return at, err
		}
		next, nextErr := openDir(at, name)
		_ = at.Close()
		at, err = next, nextErr
	}
	return at, err
}

// openDir opens a directory that is no link.
func openDir(parent *os.Root, name string) (*os.Root, error) {
	seen, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, errors.New("a directory has become something else")
	}
	if seen.Mode()&0o500 != 0o500 {
		_ = parent.Chmod(name, 0o700)
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(seen, opened) {
		return nil, errors.Join(errors.New("a directory has become something else"), err, dir.Close())
	}
	return dir, nil
}

// shown returns a path as a result shows it.
func (s *Sandbox) shown(path string) string {
	if rel, err := filepath.Rel(s.cfg.Workspace, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// writable are the directories that commands write and people enter. The private home is not one.
func (s *Sandbox) writable() []string {
	return append([]string{s.cfg.Workspace}, s.cfg.Write...)
}

// harmless are the keys of a repository's configuration that make git execute nothing. clone and init
// write no others.
var harmless = lazyregexp.New(`^(?i:` +
	`\[(core|user|extensions|remote "[^"\\]*"|branch "[^"\\]*")\]` +
	`|(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf` +
	`|name|email|objectformat|refstorage|url|fetch|tagopt|merge|remote|rebase)\s*=[^\\]*` +
	`|[#;].*)?$`)

// executesNothing reports whether git, used by a person in a repository, executes nothing that the
// repository names. dir is a .git or a bare repository.
func executesNothing(dir string) bool {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || fold(filepath.Base(dir)) == ".hg" || fold(filepath.Base(dir)) == ".jj" {
		return false
	}
	for _, name := range []string{"commondir", "config.worktree", "modules", "worktrees"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "hooks")); err == nil && !info.IsDir() { // a link, behind which hooks can come later
		return false
	}
	hooks, err := os.ReadDir(filepath.Join(dir, "hooks"))
	if err != nil && !errors.Is(err, os.ErrNotExist) || slices.ContainsFunc(hooks, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".sample") }) {
		return false
	}
	path := filepath.Join(dir, "config")
	if info, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return true
	} else if err != nil || !info.Mode().IsRegular() || hasOtherNames(info) {
		return false
	}
	config, err := os.Open(path)
	if err != nil {
		return false
	}
	defer config.Close()
	lines := bufio.NewScanner(config)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if !harmless.MatchString(line) || strings.Contains(line, "ext::") {
			return false
		}
	}
	return lines.Err() == nil
}

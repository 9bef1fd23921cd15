package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// before is what was there when a command began. Its file, whose lock this process holds, lets the
// next process examine what a command made whose worker died.
type before struct {
	found    []string
	approved bool // the command may make and write repositories
	file     *os.File
}

// markers is the directory of these files, in the state.
const markers = "running"

// note stores what was there before a command.
func (s *Sandbox) note(found []string, approved bool) (*before, error) {
	b := &before{found: found, approved: approved}
	dir := filepath.Join(s.cfg.State, markers)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		b.file, err = os.CreateTemp(dir, "")
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: note what is there before a command: %w", err)
	}
	_, err = durable.TryLock(b.file)
	if err == nil {
		err = json.NewEncoder(b.file).Encode(marker{b.found, b.approved})
	}
	if err != nil {
		b.forget()
		return nil, fmt.Errorf("sandbox: note what is there before a command: %w", err)
	}
	return b, nil
}

// marker is the content of the file. A file that is not complete is of a command that did not start.
type marker struct {
	Found    []string `json:"found"`
	Approved bool     `json:"approved"`
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
		var m marker
		if json.NewDecoder(file).Decode(&m) == nil {
			b.found, b.approved = m.Found, m.Approved
			end := s.setAside(b)
			s.left = append(s.left, append(end.SetAside, end.Unsafe...)...)
		}
		b.forget()
	}
}

// setAside renames what programs execute and a command made: mounts protect only what exists. A
// repository that executes nothing stays.
func (s *Sandbox) setAside(b *before) (end Ended) {
	now := s.protect.scan(s.writable())
	for _, path := range now.found {
		repository := !isSettings(filepath.Base(path))
		if slices.Contains(b.found, path) || repository && (b.approved || executesNothing(path)) {
			continue
		}
		if !isSettings(filepath.Base(path)) && Executed(filepath.Base(path)) == "" {
			path = filepath.Join(path, "HEAD") // of a bare repository, which is none without it
		}
		name, err := s.renameAside(path)
		if err != nil {
			end.Unsafe = append(end.Unsafe, fmt.Sprintf("programs execute what is in %s, which cannot be renamed (%v); remove it before you use the workspace", s.shown(path), err))
			continue
		}
		end.SetAside = append(end.SetAside, name)
	}
	if now.missed != "" {
		end.Unsafe = append(end.Unsafe, fmt.Sprintf("the workspace has more than %d directories; those from %s on were not examined for what programs execute", maxDirs, s.shown(now.missed)))
	}
	return end
}

// renameAside gives a path a name that no program looks for.
func (s *Sandbox) renameAside(path string) (name string, err error) {
	to := path + ".refused-" + time.Now().UTC().Format("20060102T150405.000")
	err = os.Rename(path, to)
	if errors.Is(err, os.ErrPermission) { // the command made the directory read-only
		_ = os.Chmod(filepath.Dir(path), 0o700)
		err = os.Rename(path, to)
	}
	return s.shown(to), err
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
var harmless = regexp.MustCompile(`^(?i:` +
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
	hooks, err := os.ReadDir(filepath.Join(dir, "hooks"))
	if err != nil && !errors.Is(err, os.ErrNotExist) || slices.ContainsFunc(hooks, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".sample") }) {
		return false
	}
	path := filepath.Join(dir, "config")
	if info, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return true
	} else if err != nil || !info.Mode().IsRegular() {
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

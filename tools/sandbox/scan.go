package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// maxDirs bounds the directories that one scan examines.
const maxDirs = 50_000

// protection finds what commands must not change in the writable directories. Each command has a
// scan of its own at its start and at its end: a list from before would not have what is new.
type protection struct {
	allowed []string // that the operator lets commands write

	mu   sync.Mutex
	dirs map[string]listing // of the last scan
}

// listing is what a scan needs of a directory.
type listing struct {
	unreadable bool
	changed    time.Time // the status change of the directory, which a command cannot set
	read       time.Time
	dirs       []string // names of directories to examine
	found      []string // names that programs execute; "." if the directory itself is a repository
}

// racy is how much older than its listing the last change of a directory must be: a change in the
// same tick of the file system's clock would not show.
const racy = 2 * time.Second

// scan is what programs execute in some directories.
type scan struct {
	found  []string // paths; nothing below them is examined
	hooks  []string // directories that core.hooksPath of a found repository names
	missed string   // the first directory that was not examined, because there are too many
	closed []string // directories that the worker cannot read
}

func (s scan) all() []string { return slices.Concat(s.found, s.hooks) }

// scan examines dirs and all below them, the top first, without following links. It reads only
// directories that changed since the last scan.
func (p *protection) scan(dirs []string) (s scan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[string]listing, len(p.dirs))
	packages := map[string]bool{} // node_modules, and what is below
	for queue := slices.Clone(dirs); len(queue) > 0; {
		dir := queue[0]
		queue = queue[1:]
		if _, again := seen[dir]; again {
			continue
		}
		if len(seen) == maxDirs {
			s.missed = dir
			break
		}
		l := p.list(dir)
		seen[dir] = l
		if l.unreadable {
			s.closed = append(s.closed, dir)
		}
		for _, name := range l.found {
			// Packages bring settings that nobody opens, and mounts on them would prevent that npm
			// replaces the packages. They bring no repositories.
			if !packages[dir] || !isSettings(name) {
				s.add(p, dir, filepath.Join(dir, name), name)
			}
		}
		for _, name := range l.dirs {
			path := filepath.Join(dir, name)
			if packages[dir] || name == "node_modules" {
				packages[path] = true
			}
			queue = append(queue, path)
		}
	}
	p.dirs = seen
	return s
}

func (s *scan) add(p *protection, dir, path, name string) {
	if slices.Contains(p.allowed, path) {
		return
	}
	s.found = append(s.found, path)
	if fold(name) != ".git" {
		return
	}
	for _, hooks := range HooksPaths(dir) {
		rel, err := filepath.Rel(dir, hooks)
		if err != nil || rel == "." || !filepath.IsLocal(rel) {
			continue
		}
		if root, err := os.OpenRoot(dir); err == nil { // refuses links that lead elsewhere
			_ = root.MkdirAll(rel, 0o755) // otherwise a command could
			_ = root.Close()
		}
		s.hooks = append(s.hooks, hooks)
	}
}

// list returns the listing of a directory, that of the last scan if nothing changed.
func (p *protection) list(dir string) listing {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return listing{unreadable: err != nil && !errors.Is(err, os.ErrNotExist)} // of a directory that may not be entered
	}
	changed := changeTime(info)
	if l, ok := p.dirs[dir]; ok && !changed.IsZero() && l.changed.Equal(changed) && changed.Before(l.read.Add(-racy)) {
		return l
	}
	l := listing{changed: changed, read: time.Now()}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{unreadable: !errors.Is(err, os.ErrNotExist)}
	}
	// Of a directory that may not be entered, the names can be read, and not whether git takes it for a repository.
	_, err = os.Lstat(dir + "/.")
	l.unreadable = errors.Is(err, os.ErrPermission)
	if WouldBeGitDir(dir, "") { // a bare repository
		l.found = []string{"."}
		return l
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case Executed(name) != "":
			l.found = append(l.found, name)
		case entry.IsDir():
			l.dirs = append(l.dirs, name)
		}
	}
	return l
}

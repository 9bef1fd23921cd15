package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	changed time.Time // the status change of the directory, which a command cannot set
	read    time.Time
	dirs    []string // names of directories to examine
	found   []string // names that programs execute; "." if the directory itself is a repository
}

// racy is how much older than its listing the last change of a directory must be: a change in the
// same tick of the file system's clock would not show.
const racy = 2 * time.Second

// scan is what programs execute in some directories.
type scan struct {
	found  []string // paths; nothing below them is examined
	hooks  []string // directories that core.hooksPath of a found repository names
	missed string   // the first directory that was not examined, because there are too many
}

func (s scan) all() []string { return slices.Concat(s.found, s.hooks) }

// scan examines dirs and all below them, the top first, without following links. It reads only
// directories that changed since the last scan.
func (p *protection) scan(dirs []string) (s scan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[string]listing, len(p.dirs))
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
		for _, name := range l.found {
			s.add(p, dir, filepath.Join(dir, name), name)
		}
		for _, name := range l.dirs {
			queue = append(queue, filepath.Join(dir, name))
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
	if name != ".git" {
		return
	}
	for _, hooks := range HooksPaths(dir) {
		if within(hooks, dir) && hooks != dir {
			_ = os.MkdirAll(hooks, 0o755) // otherwise a command could
			s.hooks = append(s.hooks, hooks)
		}
	}
}

// list returns the listing of a directory, that of the last scan if nothing changed.
func (p *protection) list(dir string) listing {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return listing{}
	}
	changed := changeTime(info)
	if l, ok := p.dirs[dir]; ok && !changed.IsZero() && l.changed.Equal(changed) && changed.Before(l.read.Add(-racy)) {
		return l
	}
	l := listing{changed: changed, read: time.Now()}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{}
	}
	if isGitDir(entries) { // a bare repository
		l.found = []string{"."}
		return l
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case Executed(name) != "":
			l.found = append(l.found, name)
		case entry.IsDir() && name != "node_modules":
			l.dirs = append(l.dirs, name)
		}
	}
	return l
}

// isGitDir is WouldBeGitDir for the entries of a directory.
func isGitDir(entries []os.DirEntry) bool {
	has := 0
	for _, entry := range entries {
		switch strings.ToLower(entry.Name()) {
		case "head", "objects", "refs":
			has++
		}
	}
	return has >= 3
}

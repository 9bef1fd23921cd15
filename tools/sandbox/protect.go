package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// repositories finds the Git repositories in the writable directories, whose hooks and
// configuration commands must not change: git executes programs that they name, later and
// outside of the sandbox.
type repositories struct {
	allowed []string // that the operator lets commands write

	mu    sync.Mutex
	found []repository
	at    time.Time // of the last scan
	later bool      // it was not the first one
}

// repository is a Git directory.
type repository struct {
	dir    string   // .git, which must stay where it is
	sealed []string // in it, which must not change
}

// rescan is how often the worker looks for new repositories.
const rescan = 10 * time.Second

// maxScanned bounds the directory entries that one scan examines.
const maxScanned = 5_000

// find returns the repositories in dirs. Of those that exist before the first command, it
// also seals the configuration. A later one was probably made by a command, which had
// to write its configuration, so it only seals the hooks.
func (r *repositories) find(dirs []string) []repository {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < rescan && !r.isNew(dirs) {
		return r.found
	}
	known := r.found
	r.found, r.later = nil, !r.at.IsZero()
	left := maxScanned
	for _, dir := range dirs {
		r.scan(dir, 3, &left)
	}
	for i, repo := range r.found {
		if k := slices.IndexFunc(known, func(old repository) bool { return old.dir == repo.dir }); k >= 0 {
			r.found[i] = known[k]
		}
	}
	r.at = time.Now()
	return r.found
}

// isNew reports whether one of the directories itself became a repository.
func (r *repositories) isNew(dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		git := filepath.Join(dir, ".git")
		_, err := os.Lstat(filepath.Join(git, "HEAD"))
		return err == nil && !slices.Contains(r.allowed, git) && !slices.ContainsFunc(r.found, func(repo repository) bool { return repo.dir == git })
	})
}

// scan adds the repositories in dir and, depth levels below it, without following links.
func (r *repositories) scan(dir string, depth int, left *int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	if isGitDir(dir) {
		r.add(dir)
		return
	}
	for _, entry := range entries {
		if *left--; *left < 0 {
			return
		}
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.Name() == ".git" && entry.IsDir():
			r.add(path)
		case entry.Name() == ".git" && entry.Type().IsRegular(): // of a worktree or a submodule: it names the directory
			r.found = append(r.found, repository{dir: path, sealed: []string{path}})
		case entry.IsDir() && depth > 0 && entry.Name() != "node_modules":
			r.scan(path, depth-1, left)
		}
	}
}

// add adds a Git directory and those of its submodules. A missing hooks directory is
// created, because a command could create it otherwise.
func (r *repositories) add(dir string) {
	if !isGitDir(dir) || slices.Contains(r.allowed, dir) {
		return
	}
	_ = os.Mkdir(filepath.Join(dir, "hooks"), 0o755)
	repo := repository{dir: dir}
	names := []string{"hooks", "config", "config.worktree", "commondir"}
	if r.later {
		names = names[:1]
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && (info.IsDir() || info.Mode().IsRegular()) && !slices.Contains(r.allowed, path) {
			repo.sealed = append(repo.sealed, path)
		}
	}
	r.found = append(r.found, repo)
	for _, parent := range []string{"modules", "worktrees"} {
		r.scanModules(filepath.Join(dir, parent), 4)
	}
}

func (r *repositories) scanModules(dir string, depth int) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case !entry.IsDir():
		case isGitDir(path):
			r.add(path)
		case depth > 0: // the name of a module can contain slashes
			r.scanModules(path, depth-1)
		}
	}
}

// isGitDir reports whether git would use the directory as a repository.
func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

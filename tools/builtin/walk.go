package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// defaultDirEntries is how many names of one directory are held, to sort
	// them.
	defaultDirEntries = 200_000
	// maxDepth bounds the directories that are open at a time.
	maxDepth = 128
)

// found is one file or directory met on a walk.
type found struct {
	dir   *os.Root // the directory that it is in; open during the visit only
	name  string   // its name there
	path  string   // its path below the start, with slashes
	entry fs.DirEntry
}

// walker visits a tree in the order of names, parents first. It follows no
// symbolic link, so there are no loops and no way out, and leaves out .git
// below the start. What cannot be opened is counted, not fatal.
type walker struct {
	visit func(ctx context.Context, f found) error
	flat  bool // the start's own entries only
	held  int  // names of one directory that are held; default defaultDirEntries

	unreadable int // directories that could not be opened, or are too deep
	cut        int // directories with more names than are held
}

// errStop, returned by visit, ends a search early and without a failure.
var errStop = errors.New("stop the walk")

// walk visits what is below dir.
func (w *walker) walk(ctx context.Context, dir *os.Root) error { return w.walkDir(ctx, dir, "", 0) }

func (w *walker) walkDir(ctx context.Context, dir *os.Root, prefix string, depth int) error {
	entries, cut, err := readDir(dir, cmp.Or(w.held, defaultDirEntries))
	if err != nil {
		if depth == 0 {
			return err
		}
		w.unreadable++
		return nil
	}
	if cut {
		w.cut++
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		f := found{dir: dir, name: entry.Name(), path: path.Join(prefix, entry.Name()), entry: entry}
		if err := w.visit(ctx, f); err != nil {
			return err
		}
		if !entry.IsDir() || w.flat || entry.Name() == ".git" {
			continue
		}
		if err := w.descend(ctx, f, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) descend(ctx context.Context, f found, depth int) error {
	if depth > maxDepth {
		w.unreadable++
		return nil
	}
	sub, err := f.dir.OpenRoot(f.name)
	if err != nil {
		w.unreadable++
		return nil
	}
	defer sub.Close()
	return w.walkDir(ctx, sub, f.path, depth)
}

// readDir returns the entries of dir sorted by name, and whether there are more
// than held of them.
func readDir(dir *os.Root, held int) (entries []fs.DirEntry, cut bool, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for len(entries) <= held {
		batch, err := f.ReadDir(min(1024, held+1-len(entries)))
		entries = append(entries, batch...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	cut = len(entries) > held
	entries = entries[:min(len(entries), held)]
	sortEntries(entries)
	return entries, cut, nil
}

func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}

// note says in out what the walk left out.
func (w *walker) note(out *tools.Output) {
	if w.unreadable > 0 {
		out.Note(fmt.Sprintf("[%d directories could not be read]", w.unreadable))
	}
	if w.cut > 0 {
		out.Note(fmt.Sprintf("[%d directories have more than %d entries; the rest was left out]", w.cut, cmp.Or(w.held, defaultDirEntries)))
	}
}

// limit runs a search for at most the configured time. If it takes longer, what
// was found is kept, and out says that it is not all.
func (ws *workspace) limit(ctx context.Context, out *tools.Output, search func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, ws.cfg.SearchTimeout)
	defer cancel()
	err := search(limited)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case limited.Err() != nil:
		out.Note(fmt.Sprintf("[stopped after %v: the result is not complete; choose a smaller directory]", ws.cfg.SearchTimeout))
	case err != nil && !errors.Is(err, errStop):
		return err
	}
	if out.Truncated() {
		out.Note("[truncated: the result is larger than the worker keeps]")
	}
	return nil
}

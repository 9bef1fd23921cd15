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
	"syscall"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const (
	// defaultDirEntries is how many names of one directory are read and sorted.
	defaultDirEntries = 200_000
	// maxDepth is how many directories may be open at the same time.
	maxDepth = 128
)

// found is a file or directory of a walk.
type found struct {
	dir   *os.Root // its directory; open during the visit only
	name  string   // its name in dir
	path  string   // its path below the start, with slashes
	entry fs.DirEntry
}

// walker visits a tree in the order of names, parents first. It follows no symbolic
// links, does not enter .git below the start, and counts the directories that it
// cannot open.
type walker struct {
	visit func(ctx context.Context, f found) error
	flat  bool          // only the entries of the start
	skip  []fs.FileInfo // directories that are not entered
	limit int           // names of one directory that are read; default defaultDirEntries

	unreadable int // directories that could not be opened, or are too deep
	cut        int // directories with more names than limit
}

// visit returns errStop to end a search early without a failure.
var errStop = errors.New("stop the walk")

// walk visits the entries below dir.
func (w *walker) walk(ctx context.Context, dir *os.Root) error { return w.walkDir(ctx, dir, "", 0) }

func (w *walker) walkDir(ctx context.Context, dir *os.Root, prefix string, depth int) error {
	entries, cut, err := readDir(dir, cmp.Or(w.limit, defaultDirEntries))
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
	info, err := sub.Stat(".")
	if err != nil { // its names may be read, and nothing in it
		w.unreadable++
		return nil
	}
	if slices.ContainsFunc(w.skip, func(dir fs.FileInfo) bool { return os.SameFile(dir, info) }) {
		return nil
	}
	return w.walkDir(ctx, sub, f.path, depth)
}

// readDir returns at most limit entries of dir, sorted by name, and whether there are
// more.
func readDir(dir *os.Root, limit int) (entries []fs.DirEntry, cut bool, err error) {
	f, err := dir.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise package os sets and clears the flag
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if entries, err = f.ReadDir(limit + 1); err != nil && err != io.EOF {
		return nil, false, err
	}
	cut = len(entries) > limit
	entries = entries[:min(len(entries), limit)]
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, cut, nil
}

// note adds to out what the walk omitted.
func (w *walker) note(out *tools.Output) {
	if w.unreadable > 0 {
		out.Note(fmt.Sprintf("[%d directories could not be read]", w.unreadable))
	}
	if w.cut > 0 {
		out.Note(fmt.Sprintf("[%d directories have more than %d entries; the rest was omitted]", w.cut, cmp.Or(w.limit, defaultDirEntries)))
	}
}

// inTurn runs a search, or a listing, when it is the turn of the session; limited.Pool may start it
// twice. At a limit of time, the output has the results so far and a note. The output is to be
// closed, also after an error.
func (ws *workspace) inTurn(ctx context.Context, call tools.Call, search func(context.Context, *tools.Output) error) (out *tools.Output, err error) {
	out = tools.NewOutput(ws.cfg.Output)
	err = ws.cfg.Pool.Do(ctx, call.SessionToken(), ws.cfg.SearchTime, func(ctx context.Context) error {
		_ = out.Close()
		out = tools.NewOutput(ws.cfg.Output)
		err := search(ctx, out)
		if reached, ok := limited.TimeUp(ctx); ok && err != nil {
			out.Note(fmt.Sprintf("[stopped: %s, and the result is not complete; choose a smaller directory or a simpler pattern]", reached))
			return nil
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return out, ended(ctx)
	case err != nil && !errors.Is(err, errStop):
		return out, err
	}
	if out.Truncated() {
		out.Note("[truncated: the result is larger than the worker keeps]")
	}
	return out, nil
}

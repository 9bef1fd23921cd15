package chat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// maxSuffix bounds the search for a free name.
const maxSuffix = 100_000

// fileNames gives each result its own file name in one directory.
type fileNames struct {
	w           FileCreator
	dir, prefix string
	// ids has the names of the ids that occur; no suffixed name may equal one.
	ids map[string]bool
	// used has the names of files of earlier runs, which references show.
	used map[string]bool
	// next is the next suffix for a name, so that this run uses no name twice.
	next map[string]int
}

func newFileNames(w FileCreator, dir, prefix string) *fileNames {
	return &fileNames{
		w: w, dir: dir, prefix: prefix,
		ids: map[string]bool{}, used: map[string]bool{}, next: map[string]int{},
	}
}

// reserve records the names that a result has or refers to. The caller reserves all
// results before it creates the first file.
func (f *fileNames) reserve(b block) {
	f.ids[fileName(b.id)] = true
	s := reference(b.value)
	if name := cutReference(s, historyPrefix); name != "" {
		f.used[name] = true
	}
	if path := cutReference(s, messagePrefix); path != "" {
		f.used[filepath.Base(path)] = true
	}
}

// create writes content under the first free name for id and returns the path.
func (f *fileNames) create(ctx context.Context, id, content string) (string, error) {
	base := fileName(id)
	for n := f.next[base]; n <= maxSuffix; n++ {
		name := base
		if n > 0 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if f.used[name] || n > 0 && f.ids[name] {
			continue
		}
		path := below(f.dir, f.prefix+name+extension)
		switch err := f.w.CreateFile(ctx, path, content); {
		case err == nil:
			f.next[base] = n + 1
			return path, nil
		case !errors.Is(err, ErrFileExists):
			return "", fmt.Errorf("create %q: %w", path, err)
		}
	}
	return "", fmt.Errorf("the files %s to %s-%d in %q all exist; choose another directory", base, base, maxSuffix, f.dir)
}

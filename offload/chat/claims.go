package chat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// maxSuffix bounds the search for a free name.
const maxSuffix = 100_000

// claims gives each result a file name of its own in one directory.
type claims struct {
	w           FileCreator
	dir, prefix string
	// real has the names of the ids that occur; no suffixed name may be one.
	real map[string]bool
	// used has the names that were given away in an earlier run, as references
	// show.
	used map[string]bool
	// next is the suffix to try next for a name, so that no name is given away
	// twice in this run.
	next map[string]int
}

func newClaims(w FileCreator, dir, prefix string) *claims {
	return &claims{
		w: w, dir: dir, prefix: prefix,
		real: map[string]bool{}, used: map[string]bool{}, next: map[string]int{},
	}
}

// reserve notes the names that a result has or refers to. All results are
// reserved before the first file is created.
func (c *claims) reserve(b block) {
	c.real[fileName(b.id)] = true
	s := reference(b.value)
	if name := cutReference(s, historyPrefix); name != "" {
		c.used[name] = true
	}
	if path := cutReference(s, messagePrefix); path != "" {
		c.used[filepath.Base(path)] = true
	}
}

// create writes content under the first free name for id and returns the path.
func (c *claims) create(ctx context.Context, id, content string) (string, error) {
	base := fileName(id)
	for n := c.next[base]; n <= maxSuffix; n++ {
		name := base
		if n > 0 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if c.used[name] || n > 0 && c.real[name] {
			continue
		}
		path := below(c.dir, c.prefix+name+extension)
		switch err := c.w.CreateFile(ctx, path, content); {
		case err == nil:
			c.next[base] = n + 1
			return path, nil
		case !errors.Is(err, ErrTaken):
			return "", fmt.Errorf("create %q: %w", path, err)
		}
	}
	return "", fmt.Errorf("the names %s to %s-%d in %q are all taken; choose another directory", base, base, maxSuffix, c.dir)
}

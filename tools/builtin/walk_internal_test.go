//go:build unix

package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/modes"
	"github.com/stevedore-bus/stevedore/tools"
)

// walked returns the paths that a walk below the workspace visits, and its note.
func walked(t *testing.T, ws *workspace, w *walker) (paths []string, note string) {
	t.Helper()
	w.visit = func(_ context.Context, f found) error {
		paths = append(paths, f.path)
		return nil
	}
	if err := w.walk(t.Context(), ws.root); err != nil {
		t.Fatal(err)
	}
	out := tools.NewOutput(tools.OutputLimits{})
	defer out.Close()
	w.note(out)
	note, _, _ = out.Text(1000)
	return paths, note
}

func TestWalkHoldsNoMoreNamesThanItMay(t *testing.T) {
	ws := testWorkspace(t)
	for i := range 5 {
		if err := os.WriteFile(filepath.Join(ws.dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for held, want := range map[int]string{5: "", 6: "", 3: "[1 directories have more than 3 entries; the rest was omitted]"} {
		paths, note := walked(t, ws, &walker{limit: held})
		if len(paths) != min(held, 5) || !slices.IsSorted(paths) || note != want {
			t.Errorf("held %d: visited %q, note %q; want %q", held, paths, note, want)
		}
	}
}

func TestWalkGoesNoDeeperThanItMay(t *testing.T) {
	ws := testWorkspace(t)
	if err := os.MkdirAll(filepath.Join(ws.dir, strings.Repeat("d/", maxDepth+5)), 0o755); err != nil {
		t.Fatal(err)
	}
	paths, note := walked(t, ws, &walker{})
	if len(paths) != maxDepth+1 || note != "[1 directories could not be read]" {
		t.Errorf("visited %d directories, note %q; want %d", len(paths), note, maxDepth+1)
	}
}

// A directory whose names may be read, and nothing in it, ends no walk.
func TestWalkCountsWhatItMayNotEnter(t *testing.T) {
	modes.Obey(t)
	ws := testWorkspace(t)
	for _, path := range []string{"a/b/file", "z"} {
		path = filepath.Join(ws.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(ws.dir, "a"), 0o400); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(ws.dir, "a"), 0o700)
	if paths, note := walked(t, ws, &walker{}); !slices.Contains(paths, "z") || note != "[1 directories could not be read]" {
		t.Errorf("visited %q, note %q", paths, note)
	}
}

//go:build unix

package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

var epoch = time.Unix(0, 0)

// sameTime sets the modification time of to to that of from.
func sameTime(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

func testWorkspace(t *testing.T) *workspace {
	t.Helper()
	ws, err := openWorkspace(Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.root.Close() })
	return ws
}

// A name that becomes a FIFO between the check and the open must not block.
func TestOpenDoesNotBlock(t *testing.T) {
	ws := testWorkspace(t)
	if err := syscall.Mkfifo(filepath.Join(ws.dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.openIn(ws.root, "fifo"); !errors.Is(err, errSpecial) {
		t.Errorf("got %v, want %v", err, errSpecial)
	}
}

// replace keeps what another program wrote after the read.
func TestReplaceRefusesAChangedFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"written": func(path string) error { return os.WriteFile(path, []byte("longer than before"), 0o644) },
		"touched": func(path string) error { return os.Chtimes(path, epoch, epoch) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte("new"), 0o644), sameTime(path, path+"2"), os.Rename(path+"2", path))
		},
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			ws := testWorkspace(t)
			path := filepath.Join(ws.dir, "f")
			if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			old, err := ws.target("f")
			if err != nil {
				t.Fatal(err)
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			if err := ws.replace(t.Context(), "f", []byte("mine"), old); !errors.Is(err, errChanged) {
				t.Errorf("got %v, want %v", err, errChanged)
			}
			if after, _ := os.ReadFile(path); !slices.Equal(before, after) {
				t.Errorf("the file holds %q, want %q", after, before)
			}
			if left, _ := filepath.Glob(filepath.Join(ws.dir, ".*")); left != nil {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	t.Run("created", func(t *testing.T) {
		ws := testWorkspace(t)
		if err := os.WriteFile(filepath.Join(ws.dir, "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := ws.replace(t.Context(), "f", []byte("mine"), nil); !errors.Is(err, errChanged) {
			t.Errorf("got %v, want %v", err, errChanged)
		}
	})
}

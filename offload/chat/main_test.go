package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memory is a writer to memory. Write number failAt (from 1) fails, before or after it
// stored the content.
type memory struct {
	files  map[string]string
	order  []string
	failAt int
	late   bool
}

var errDisk = errors.New("no space left on the test's device")

func newMemory() *memory { return &memory{files: map[string]string{}} }

func (w *memory) WriteFile(_ context.Context, path, content string) error {
	w.order = append(w.order, path)
	fails := len(w.order) == w.failAt
	if !fails || w.late {
		w.files[path] = content
	}
	if fails {
		return errDisk
	}
	return nil
}

func (w *memory) CreateFile(ctx context.Context, path, content string) error {
	if old, ok := w.files[path]; ok && old != content {
		return ErrFileExists
	}
	return w.WriteFile(ctx, path, content)
}

func message(t *testing.T, text string) Message {
	t.Helper()
	m, err := ParseMessage([]byte(text))
	if err != nil {
		t.Fatalf("ParseMessage(%.200s): %v", text, err)
	}
	return m
}

func history(t *testing.T, text string) []Message {
	t.Helper()
	ms, err := ParseHistory([]byte(text))
	if err != nil {
		t.Fatalf("ParseHistory(%.200s): %v", text, err)
	}
	return ms
}

// result returns the JSON of a tool_result with a string content.
func result(id, content string) string {
	return `{"type":"tool_result","tool_use_id":` + Quote(id) + `,"content":` + Quote(content) + `}`
}

// user returns the JSON of a message with these blocks.
func user(blocks ...string) string {
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("file %s holds %.300q, want %.300q", path, got, want)
	}
}

// wantFiles checks that dir contains exactly these files, and no temporary ones.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			got = append(got, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("files below the directory: %q, want %q", got, want)
	}
}

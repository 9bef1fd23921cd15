package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnwritableDirectories(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := message(t, user(result("a", strings.Repeat("x", 100))))
	for name, run := range map[string]func() error{
		"the directory is a file": func() error { _, err := OffloadMessage(t.Context(), m, "s", file); return err },
		"below a file": func() error {
			_, err := OffloadHistory(t.Context(), []Message{m}, filepath.Join(file, "x"), Options{})
			return err
		},
		"the session is a file":              func() error { _, err := OffloadMessage(t.Context(), m, "file", dir); return err },
		"the session is a file, with blocks": func() error { _, err := OffloadResults(t.Context(), m, "file", dir, 0); return err },
		"cancelled": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := OffloadMessage(ctx, m, "s", dir)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: error %v", err)
			}
			return err
		},
	} {
		if err := run(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	wantFiles(t, dir, "file")
	wantFile(t, file, "x")
}

package builtin

import (
	"path/filepath"
	"strings"
	"testing"
)

// FuzzGuard checks each path that the guard lets pass: no part of it is a name that git
// or a file system takes for .git.
func FuzzGuard(f *testing.F) {
	for _, path := range []string{"a", ".git", ".GIT/x", "a/.git /x", ".g\u200cit", "git~1/config", ".git:x:$DATA", "..git", ".git.../hooks", ".gitignore", "a\\.git\\x", "\xff/.git", ".hg/hgrc", ".vscode/tasks.json"} {
		f.Add(path)
	}
	ws, err := openWorkspace(Config{Workspace: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = ws.close() })
	f.Fuzz(func(t *testing.T, path string) {
		rel, err := ws.rel(path)
		if err != nil || ws.guard(rel) != nil {
			return
		}
		for name := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
			lower := strings.ToLower(name)
			if strings.HasPrefix(lower, ".git") && strings.Trim(lower[4:], ". ") == "" || strings.HasPrefix(lower, ".git:") || strings.HasPrefix(lower, "git~1") && strings.Trim(lower[5:], ". ") == "" {
				t.Fatalf("the guard allows %q", path)
			}
		}
	})
}

//go:build unix

package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/builtin"
)

func TestGlob(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	for _, name := range []string{"a.go", "b.txt", "src/c.go", "src/deep/d.go", "src/deep/e.md", ".git/x.go", ".hidden/h.go"} {
		b.file(name, "")
	}
	must(t, os.Symlink("..", filepath.Join(b.dir, "src", "up")))
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{"pattern": "*.go"}, "a.go"},
		{args{"pattern": "**/*.go"}, ".hidden/h.go a.go src/c.go src/deep/d.go"},
		{args{"pattern": "src/**/*.{go,md}"}, "src/c.go src/deep/d.go src/deep/e.md"},
		{args{"pattern": "*/"}, ".git/ .hidden/ src/"},
		{args{"pattern": "src/*"}, "src/c.go src/deep/ src/up"},
		{args{"pattern": "*/*.go", "path": "src"}, "src/deep/d.go"},
		{args{"pattern": "./src/c.go"}, "src/c.go"},
		{args{"pattern": filepath.Join(b.dir, "src/*.go")}, "src/c.go"},
		{args{"pattern": "*.go", "path": filepath.Join(b.dir, "src")}, "src/c.go"},
		{args{"pattern": ".git/*"}, ".git/x.go"},
	} {
		got := strings.Join(strings.Fields(b.ok("glob", tt.args)), " ")
		if got != tt.want {
			t.Errorf("glob %v = %q, want %q", tt.args, got, tt.want)
		}
	}
	if got := b.ok("glob", args{"pattern": "**/*.rs"}); got != `No files match "**/*.rs"` {
		t.Errorf("no match: %q", got)
	}
	for _, pattern := range []string{"", "[", "../*", "/etc/*", "src/../../*"} {
		b.fails("glob", args{"pattern": pattern})
	}
	b.fails("glob", args{"pattern": "*", "path": ".."}, "outside")
}

package integration

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"
)

// importsOf returns the import paths of a Go file.
func importsOf(t *testing.T, dir, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

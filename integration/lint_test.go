package integration

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// "make check" runs every analyzer of "go vet": one that a later Go adds is not forgotten.
func TestLintHasTheAnalyzersOfVet(t *testing.T) {
	analyzers := func(file string) map[string]bool {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, i := range parsed.Imports {
			if _, name, ok := strings.Cut(i.Path.Value, "golang.org/x/tools/go/analysis/passes/"); ok {
				names[name] = true
			}
		}
		return names
	}
	ours := analyzers("testdata/lint/main.go")
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "cmd/vet").Output()
	if err != nil {
		t.Fatalf("go list cmd/vet: %v", err)
	}
	vet := analyzers(filepath.Join(strings.TrimSpace(string(dir)), "main.go"))
	if len(vet) < 30 {
		t.Fatalf("go vet has %d analyzers", len(vet))
	}
	for name := range vet {
		if !ours[name] {
			t.Errorf("integration/testdata/lint lacks the analyzer %s", name)
		}
	}
}

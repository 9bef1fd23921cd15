package integration

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// frozenPackages returns the packages in the table of docs/api.md.
func frozenPackages(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			names = append(names, strings.Trim(name, "`"))
		}
	}
	return names
}

// A package that users can import is in the table of docs/api.md, or says that it is not
// part of the API.
func TestPublicPackages(t *testing.T) {
	t.Parallel()
	frozen := frozenPackages(t)
	if len(frozen) > 25 {
		t.Errorf("docs/api.md freezes %d packages, want at most 25", len(frozen))
	}
	var public []string
	for _, p := range listPackages(t, "...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if p.Name == "main" || regexp.MustCompile(`(^|/)internal/|^integration(/|$)`).MatchString(name) {
			continue
		}
		public = append(public, name)
		if excluded := strings.Contains(packageComment(t, name), "docs/api.md"); excluded == slices.Contains(frozen, name) {
			t.Errorf("%s: the table of docs/api.md or its package comment, not both, must name it", name)
		}
	}
	for _, name := range frozen {
		if !slices.Contains(public, name) {
			t.Errorf("docs/api.md names %s, which is no public package", name)
		}
	}
}

// packageComment returns the comment lines of the file with the package's comment.
func packageComment(t *testing.T, name string) string {
	t.Helper()
	files, err := os.ReadDir("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile("../" + name + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if comment, _, found := strings.Cut(string(text), "\npackage "); found && strings.Contains("\n"+comment, "\n// Package ") {
			return comment
		}
	}
	return ""
}

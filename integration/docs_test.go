package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName     = regexp.MustCompile(`\bTest[A-Z]\w+`)
	relativeLink = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)
)

// The docs name tests and link to files; both must exist.
func TestDocsNameWhatExists(t *testing.T) {
	root := ".."
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) < 6 {
		t.Fatalf("docs: %d pages, %v", len(pages), err)
	}
	pages = append(pages, root+"/README.md", root+"/CHANGELOG.md")
	out, err := exec.Command("git", "-C", root, "grep", "-hE", `^func Test`, "--", "*_test.go").Output()
	if err != nil {
		t.Skipf("git grep: %v", err)
	}
	tests := string(out)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range testName.FindAllString(string(text), -1) {
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("%s names the test %s, which does not exist", page, name)
			}
		}
		for _, link := range relativeLink.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
	}
}

// docs/design.md describes every package.
func TestDesignListsAllPackages(t *testing.T) {
	text, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range listPackages(t) {
		if name := strings.TrimPrefix(p.ImportPath, module+"/"); !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/design.md does not name the package %s", name)
		}
	}
}

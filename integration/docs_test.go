package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

var (
	packageOrTest = regexp.MustCompile("`[a-z]+(/[a-z]+)*`|\\bTest[A-Z]\\w+")
	goFile        = regexp.MustCompile("`([a-z]+(?:/[a-z_]+)+\\.go)`")
	relativeLink  = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
	heading       = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor   = regexp.MustCompile(`[^\w -]`)
)

// The tests that the docs name exist in the package that the page names before them,
// and so do the Go files that they name, and the files and headings that they link to.
func TestDocsNameWhatExists(t *testing.T) {
	root := ".."
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) < 6 {
		t.Fatalf("docs: %d pages, %v", len(pages), err)
	}
	pages = append(pages, root+"/README.md", root+"/CHANGELOG.md", root+"/SECURITY.md")
	tests := map[string]string{} // names of tests, in one text per package
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests[filepath.ToSlash(filepath.Dir(path))] += string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		in := "" // the package that the page named last
		for _, name := range packageOrTest.FindAllString(string(text), -1) {
			if folder, ok := strings.CutPrefix(name, "`"); ok {
				in = root + "/" + strings.TrimSuffix(folder, "`")
			} else if !strings.Contains(tests[in], "func "+name+"(") {
				t.Errorf("%s names the test %s, which is not in %s", page, name, in)
			}
		}
		for _, file := range goFile.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, file[1])); err != nil {
				t.Errorf("%s names a file: %v", page, err)
			}
		}
		for _, link := range relativeLink.FindAllStringSubmatch(string(text), -1) {
			target := page
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(page), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			} else if link[2] != "" && !slices.Contains(anchors(t, target), link[2]) {
				t.Errorf("%s links to %s, which has no heading #%s", page, target, link[2])
			}
		}
	}
}

// anchors returns the anchors that GitHub makes of the headings of a page.
func anchors(t *testing.T, page string) (all []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// Paragraphs are short enough to read.
func TestDocsHaveShortParagraphs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	const longest = 600 // bytes
	for _, page := range append(pages, "../README.md", "../CHANGELOG.md", "../SECURITY.md", "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if len(line) > longest && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d bytes; split it, at most %d are allowed", page, i+1, len(line), longest)
			}
		}
	}
}

// noModel is a model that is never used.
type noModel struct{ agent.Provider }

// docs/tools.md names every tool that a worker can offer.
func TestDocsNameAllTools(t *testing.T) {
	text, err := os.ReadFile("../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	all, closeTools, err := builtin.Tools(builtin.Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeTools() }()
	agents, err := agent.Tools(agent.ToolsConfig{DefaultModel: "m", Models: map[string]agent.Provider{"m": noModel{}}})
	if err != nil {
		t.Fatal(err)
	}
	message := builtin.NewMessage(nil)
	jobs := cron.New(nil).Tool(cron.ToolConfig{})
	readers := offload.NewReader(nil, offload.ReaderConfig{}).Tools()
	for _, tool := range slices.Concat(all, agents, readers, []tools.Tool{message, jobs}) {
		if name := tool.Definition().Name; !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/tools.md does not name the tool %s", name)
		}
	}
}

// docs/design.md describes every package, and no other.
func TestDesignListsAllPackages(t *testing.T) {
	text, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range listPackages(t, "...") {
		if name := strings.TrimPrefix(p.ImportPath, module+"/"); !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/design.md does not name the package %s", name)
		}
	}
	_, table, _ := strings.Cut(string(text), "| package | one sentence |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, name := range regexp.MustCompile("`([a-z/]+)`").FindAllStringSubmatch(table, -1) {
		if _, err := os.Stat("../" + name[1]); err != nil {
			t.Errorf("docs/design.md names the package %s: %v", name[1], err)
		}
	}
}

// The picture of the effect shows the differences of the table in docs/mcp.md: what a result adds
// to the requests, compared with a small one.
func TestPictureOfTheEffect(t *testing.T) {
	page, err := os.ReadFile("../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../docs/pictures/effect.svg")
	if err != nil {
		t.Fatal(err)
	}
	row := func(size string) (bytes []int) { // of each host, without and with
		m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(size) + ` \| (.*) \|$`).FindSubmatch(page)
		if m == nil {
			t.Fatalf("docs/mcp.md has no row %s", size)
		}
		for _, number := range regexp.MustCompile(`[\d,]+`).FindAllString(string(m[1]), -1) {
			n, err := strconv.Atoi(strings.ReplaceAll(number, ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			bytes = append(bytes, n)
		}
		return bytes
	}
	small, medium, large := row("0.1 KB"), row("30 KB"), row("1.3 MB")
	var want, got []int
	for host := 0; host < len(small); host += 2 {
		for _, size := range [][]int{medium, large} {
			want = append(want, size[host]-small[host], size[host+1]-small[host+1])
		}
	}
	for _, m := range regexp.MustCompile(`>([\d,]+)</text>`).FindAllSubmatch(picture, -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(string(m[1]), ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if len(want) != 16 || !slices.Equal(got, want) {
		t.Errorf("the picture shows %v, the table says %v", got, want)
	}
}

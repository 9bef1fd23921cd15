package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// build makes the site of the repository and returns its folder.
func build(t *testing.T) string {
	t.Helper()
	t.Chdir("../../..")
	out := t.TempDir()
	if err := run(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every link and picture of the site leads to a file of it, and to an id on that page, or to
// another host.
func TestLinksOfTheSite(t *testing.T) {
	out := build(t)
	pages := map[string]string{}
	for _, pattern := range []string{"*.html", "*/*.html"} {
		files, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pages[file] = string(text)
		}
	}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) < 18 {
		t.Fatal(docs, err)
	}
	for _, file := range docs {
		if pages[filepath.Join(out, strings.TrimSuffix(file, ".md")+".html")] == "" {
			t.Errorf("the section Documentation of README.md does not name %s", file)
		}
	}
	links := 0
	for file, text := range pages {
		for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			target, id, _ := strings.Cut(m[1], "#")
			path := filepath.Join(filepath.Dir(file), target)
			if target == "" {
				path = file
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			} else if id != "" && !strings.Contains(pages[path], `id="`+id+`"`) {
				t.Errorf("%s links to %s, which has no such id", file, m[1])
			}
		}
		if strings.Contains(text, "language-mermaid") {
			t.Errorf("%s has a diagram that browsers do not draw; make it a picture", file)
		}
	}
	if links < 500 {
		t.Errorf("only %d links", links)
	}
}

// The program refuses links to headings, pages and pictures that do not exist, and headings with
// the same text have ids of their own, as on GitHub.
func TestBrokenLinksOfTheSite(t *testing.T) {
	for text, want := range map[string]string{
		"[x](docs/b.md#same-1)":   "",
		"[x](docs/b.md#same-2)":   "docs/b.md has no heading #same-2",
		"[x](docs/missing.md)":    "docs/missing.md: no such file",
		"![x](docs/missing.png)":  "docs/missing.png: no such file",
		"[x](https://a.example/)": "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, text := range map[string]string{
				"README.md": "# A\n\n- [docs/b.md](docs/b.md): b\n\n" + text + "\n", "docs/b.md": "# B\n\n## Same\n\n## Same\n",
				"CHANGELOG.md": "# C\n", "SECURITY.md": "# S\n", "integration/README.md": "# I\n",
			} {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := run("out")
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// In a browser, from the disk: no page is wider than the screen, pictures are shown, and the
// search finds.
func TestSiteInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	out := build(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	for _, width := range []int64{390, 1440} {
		for _, page := range []string{"index.html", "docs/mcp.html", "docs/reference.html", "docs/design.html"} {
			err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate("file://"+filepath.Join(out, page)))
			if err != nil {
				t.Fatal(err)
			}
			fits, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.documentElement.scrollWidth + " " + [...document.images].every((i) => i.naturalWidth > 0)`))
			if want := fmt.Sprint(width, " true"); err != nil || fits != want {
				t.Errorf("%s at %d px: width and pictures %q, want %q: %v", page, width, fits, want, err)
			}
		}
	}
	err = chromedp.Do(ctx, chromedp.KeyEvent("/"), chromedp.KeyEvent("how do i remove"), chromedp.WaitVisible("#results a"), chromedp.KeyEvent("\r"),
		chromedp.WaitVisible("#questions"))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := chromedp.Run(ctx, chromedp.Location()); err != nil || !strings.HasSuffix(at, "docs/faq.html#questions") {
		t.Errorf("the search led to %q: %v", at, err)
	}
}

// Command site makes a static site of the documentation, with a search that needs no server:
//
//	go run ./integration/deploy/site OUT
//
// The pages are README.md, the pages that its section "Documentation" names, in that order, the
// changelog, the security policy, and integration/README.md. Links to other files of the repository lead to GitHub.
// A link that leads nowhere is an error.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path"
	"regexp"
	"strings"
)

const source = "https://github.com/stevedore-bus/stevedore/blob/main/"

var (
	//go:embed page.html
	layout string
	//go:embed style.css
	style []byte
	//go:embed search.js
	search []byte

	named = regexp.MustCompile(`(?m)^- \[(docs/\w+\.md)\]`)
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	names := []string{"README.md"}
	for _, match := range named.FindAllSubmatch(readme, -1) {
		names = append(names, string(match[1]))
	}
	s := &site{pages: map[string]*page{}, files: map[string]bool{}}
	for _, name := range append(names, "CHANGELOG.md", "SECURITY.md", "integration/README.md") {
		if err := s.read(name); err != nil {
			return err
		}
	}
	files := map[string][]byte{"style.css": style}
	index := []section{}
	layout := template.Must(template.New("page").Parse(layout))
	for _, p := range s.order {
		sections, err := s.render(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		index = append(index, sections...)
	}
	for _, p := range s.order { // now all titles are known
		var html bytes.Buffer
		if err := layout.Execute(&html, map[string]any{"Page": p, "Pages": s.order, "Root": strings.Repeat("../", strings.Count(p.Path, "/"))}); err != nil {
			return err
		}
		files[p.Path] = html.Bytes()
	}
	for name := range s.files { // the pictures
		if files[name], err = os.ReadFile(name); err != nil {
			return err
		}
	}
	// A script, because browsers do not let a page from a file read other files.
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	files["search.js"] = append(append([]byte("const sections = "), data...), append([]byte(";\n"), search...)...)
	for name, data := range files {
		name = path.Join(out, name)
		if err := errors.Join(os.MkdirAll(path.Dir(name), 0o755), os.WriteFile(name, data, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

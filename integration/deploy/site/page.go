package main

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a Markdown file and its place in the site.
type page struct {
	name, Path, Title string
	Body              template.HTML
	source            []byte
	tree              ast.Node
	ids               map[string]bool // of its headings
}

// section is what the search finds: the text below a heading.
type section struct {
	URL   string `json:"url"`
	Page  string `json:"page"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

type site struct {
	pages map[string]*page // by name
	order []*page
	files map[string]bool // other files that pages show
}

var (
	markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	notInID  = regexp.MustCompile(`[^\w -]`)
	heading  = regexp.MustCompile(`<h\d id="([^"]*)">(.*)</h\d>`)
	tag      = regexp.MustCompile(`<[^>]*>`)
)

// read parses a file.
func (s *site) read(name string) (err error) {
	p := &page{name: name, Path: strings.TrimSuffix(name, ".md") + ".html", ids: map[string]bool{}}
	if name == "README.md" {
		p.Path = "index.html"
	}
	p.source, err = os.ReadFile(name)
	p.tree = markdown.Parser().Parse(text.NewReader(p.source), parser.WithContext(parser.NewContext(parser.WithIDs(p))))
	s.pages[name] = p
	s.order = append(s.order, p)
	return err
}

// Generate gives a heading the id that GitHub gives it.
func (p *page) Generate(title []byte, _ ast.NodeKind) []byte {
	base := strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(string(title)), ""), " ", "-")
	id := base
	for i := 1; p.ids[id]; i++ {
		id = fmt.Sprintf("%s-%d", base, i)
	}
	p.ids[id] = true
	return []byte(id)
}

// Put would reserve an id; Markdown has none.
func (p *page) Put([]byte) {}

// render makes the HTML of a page, with the links of the site, and divides it at its headings.
func (s *site) render(p *page) ([]section, error) {
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (_ ast.WalkStatus, err error) {
		if entering {
			switch n := n.(type) {
			case *ast.Link:
				n.Destination, err = s.link(p, string(n.Destination))
			case *ast.Image:
				s.files[path.Join(path.Dir(p.name), string(n.Destination))] = true // one that does not exist fails later
			}
		}
		return ast.WalkContinue, err
	})
	var b strings.Builder
	if err == nil {
		err = markdown.Renderer().Render(&b, p.source, p.tree)
	}
	p.Body = template.HTML(b.String()) // the pages are ours
	var all []section
	marks := heading.FindAllStringSubmatchIndex(b.String(), -1)
	for i, m := range marks {
		end := b.Len()
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		title := plain(b.String()[m[4]:m[5]])
		p.Title = cmp.Or(p.Title, title)
		all = append(all, section{p.Path + "#" + b.String()[m[2]:m[3]], p.Title, title, plain(b.String()[m[1]:end])})
	}
	return all, err
}

// plain returns the text of HTML.
func plain(text string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(text, " "))), " ")
}

// link returns the target of a link of a page.
func (s *site) link(p *page, to string) ([]byte, error) {
	if strings.Contains(to, "://") {
		return []byte(to), nil
	}
	file, id, _ := strings.Cut(to, "#")
	name := p.name
	if file != "" {
		name = path.Join(path.Dir(p.name), file)
	}
	target, ok := s.pages[name]
	if !ok {
		_, err := os.Stat(name)
		return []byte(source + name), err
	}
	if id != "" {
		if !target.ids[id] {
			return nil, fmt.Errorf("%s has no heading #%s", name, id)
		}
		id = "#" + id
	}
	if target == p {
		return []byte(id), nil
	}
	return []byte(strings.Repeat("../", strings.Count(p.Path, "/")) + target.Path + id), nil
}

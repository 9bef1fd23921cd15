package main

import (
	"bytes"
	"cmp"
	"fmt"
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
	markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))
	notInID  = regexp.MustCompile(`[^\w -]`)
)

// read parses a file and gives its headings the ids that GitHub gives them.
func (s *site) read(name string) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	p := &page{name: name, Path: strings.TrimSuffix(name, ".md") + ".html", source: source, ids: map[string]bool{}}
	if name == "README.md" {
		p.Path = "index.html"
	}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext()))
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if _, ok := n.(*ast.Heading); ok {
			title := plain(n, source)
			p.Title = cmp.Or(p.Title, title)
			base := strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
			id := base
			for i := 1; p.ids[id]; i++ {
				id = fmt.Sprintf("%s-%d", base, i)
			}
			p.ids[id] = true
			n.SetAttributeString("id", []byte(id))
		}
	}
	s.pages[name] = p
	s.order = append(s.order, p)
	return nil
}

// render returns the HTML of a page, with the links of the site.
func (s *site) render(p *page) (template.HTML, error) {
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (_ ast.WalkStatus, err error) {
		if entering {
			switch n := n.(type) {
			case *ast.Link:
				n.Destination, err = s.link(p, string(n.Destination))
			case *ast.Image:
				name := path.Join(path.Dir(p.name), string(n.Destination))
				s.files[name] = true // a file that does not exist fails later
			}
		}
		return ast.WalkContinue, err
	})
	var html bytes.Buffer
	if err == nil {
		err = markdown.Renderer().Render(&html, p.source, p.tree)
	}
	return template.HTML(html.String()), err // the pages are ours
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

// sections divides a page at its headings.
func (p *page) sections() (all []section) {
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if id, ok := n.AttributeString("id"); ok {
			all = append(all, section{URL: fmt.Sprintf("%s#%s", p.Path, id), Page: p.Title, Title: plain(n, p.source)})
		} else if len(all) > 0 {
			all[len(all)-1].Text += plain(n, p.source) + " "
		}
	}
	return all
}

// plain returns the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

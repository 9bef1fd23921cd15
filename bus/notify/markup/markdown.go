package markup

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	// markdownPiece is the approximate number of bytes to parse at once, because
	// the time can grow with their square. A piece that cannot be split below
	// maxMarkdown bytes is shown unparsed.
	markdownPiece = 4 << 10
	maxMarkdown   = 16 << 10
	// maxCells bounds the cells of tables: each row has as many cells as the
	// widest, so a hostile text could take minutes.
	maxCells = 50_000
	// maxDepth bounds the nesting of quotes and lists.
	maxDepth = 12
)

// languageName is the name of the language of a code block.
var languageName = lazyregexp.New(`^[A-Za-z0-9+#._-]{1,20}$`)

// Parse parses a clean text. It leaves out no text: a piece that would take too
// long, or that has no visible text, stays unparsed.
func Parse(source string) (all Styled) {
	for _, piece := range pieces(source) {
		s := parsePiece(piece)
		if all.Text != "" {
			all = all.Plus(Styled{Text: "\n\n"})
		}
		all = all.Plus(s)
	}
	return all
}

// pieces splits a text between paragraphs, but not within a fence.
func pieces(source string) (all []string) {
	from := 0
	for at := range Breaks(source) {
		if at-from > markdownPiece {
			all = append(all, source[from:at])
			from = at
		}
	}
	return append(all, source[from:])
}

func parsePiece(source string) (s Styled) {
	unparsed := Styled{Text: source}.trimmed()
	if len(source) > maxMarkdown || cells(source) > maxCells || strings.Contains(source, strings.Repeat(">", maxDepth+1)) {
		return unparsed
	}
	// If a hostile text makes the parser panic, the user still gets the text.
	defer func() {
		if recover() != nil || strings.TrimSpace(s.Text) == "" {
			s = unparsed
		}
	}()
	m := markdown{source: []byte(source)}
	parser := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser()
	root := parser.Parse(text.NewReader(m.source))
	s = m.blocks(root, 0, "\n\n")
	if m.tooDeep {
		return unparsed
	}
	return s.trimmed()
}

// cells returns an upper bound of the cells of a table of all lines.
func cells(source string) int {
	lines, widest := 0, 0
	for line := range strings.Lines(source) {
		lines++
		widest = max(widest, strings.Count(line, "|"))
	}
	return lines * widest
}

// markdown converts a syntax tree to text.
type markdown struct {
	source  []byte
	tooDeep bool
}

// blocks converts the blocks in n.
func (m *markdown) blocks(n ast.Node, depth int, separator string) (s Styled) {
	if depth > maxDepth {
		m.tooDeep = true
		return s
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		part := m.block(child, depth+1)
		if part.Text == "" {
			continue
		}
		if s.Text != "" {
			s = s.Plus(Styled{Text: separator})
		}
		s = s.Plus(part)
	}
	return s
}

func (m *markdown) block(n ast.Node, depth int) Styled {
	switch n := n.(type) {
	case *ast.Heading:
		return m.inline(n).as(Bold, "")
	case *ast.ThematicBreak:
		return Styled{Text: "———"}
	case *ast.FencedCodeBlock:
		code := Styled{Text: strings.TrimRight(m.lines(n), "\n")}.as(Block, "")
		if language := string(n.Language(m.source)); len(code.Spans) > 0 && languageName.MatchString(language) {
			code.Spans[0].Language = language
		}
		return code
	case *ast.CodeBlock:
		return Styled{Text: strings.TrimRight(m.lines(n), "\n")}.as(Block, "")
	case *ast.HTMLBlock:
		text := m.lines(n)
		if n.HasClosure() {
			text += string(n.ClosureLine.Value(m.source))
		}
		return Styled{Text: strings.TrimRight(text, "\n")}
	case *ast.Blockquote:
		return m.blocks(n, depth, "\n\n").quoted()
	case *ast.List:
		return m.list(n, depth)
	case *east.Table:
		return Styled{Text: m.table(n)}.as(Block, "")
	}
	if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
		return m.blocks(n, depth, "\n\n")
	}
	return m.inline(n)
}

func (m *markdown) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(m.source))
	}
	return b.String()
}

func (m *markdown) list(n *ast.List, depth int) (s Styled) {
	separator, number := "\n", n.Start
	if !n.IsTight {
		separator = "\n\n"
	}
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "• "
		if n.IsOrdered() {
			marker = strconv.Itoa(number) + ". "
			number++
		}
		if s.Text != "" {
			s = s.Plus(Styled{Text: separator})
		}
		if isTask(item) {
			marker = ""
		}
		s = s.Plus(m.blocks(item, depth, separator).indented(marker, strings.Repeat(" ", utf8.RuneCountInString(marker))))
	}
	return s
}

// isTask reports whether the item of a list begins with a checkbox, which is its marker.
func isTask(item ast.Node) bool {
	if item.FirstChild() == nil {
		return false
	}
	_, ok := item.FirstChild().FirstChild().(*east.TaskCheckBox)
	return ok
}

// table aligns the columns of a table, because these chats show no tables.
func (m *markdown) table(n *east.Table) string {
	var (
		rows   [][]string
		widths []int
	)
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			text := m.inline(cell).Plain().Text
			if len(cells) == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(cells)] = max(widths[len(cells)], runewidth.StringWidth(text))
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	var lines []string
	for i, cells := range rows {
		var line strings.Builder
		for column, cell := range cells {
			if column > 0 {
				line.WriteString("  ")
			}
			line.WriteString(cell + strings.Repeat(" ", min(widths[column], maxColumn)-min(runewidth.StringWidth(cell), widths[column], maxColumn)))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
		if i == 0 {
			var rule []string
			for _, width := range widths {
				rule = append(rule, strings.Repeat("-", min(width, maxColumn)))
			}
			lines = append(lines, strings.Join(rule, "  "))
		}
	}
	return strings.Join(lines, "\n")
}

// maxColumn bounds the width to which cells are padded.
const maxColumn = 40

// inline converts the inline nodes in n.
func (m *markdown) inline(n ast.Node) (s Styled) {
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		s = s.Plus(m.inlineNode(child))
	}
	return s
}

func (m *markdown) inlineNode(n ast.Node) Styled {
	switch n := n.(type) {
	case *ast.Text:
		value := n.Segment.Value(m.source)
		if !n.IsRaw() {
			value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
		}
		text := Clean(string(value)) // an entity may be a character that clean removes
		if n.SoftLineBreak() || n.HardLineBreak() {
			text += "\n"
		}
		return Styled{Text: text}
	case *ast.String:
		return Styled{Text: string(n.Value)}
	case *ast.CodeSpan:
		return m.inline(n).as(Code, "")
	case *ast.Emphasis:
		if n.Level == 2 {
			return m.inline(n).as(Bold, "")
		}
		return m.inline(n).as(Italic, "")
	case *east.Strikethrough:
		return m.inline(n).as(Strike, "")
	case *ast.Link:
		return linked(m.inline(n), string(n.Destination))
	case *ast.Image:
		label := m.inline(n)
		if strings.TrimSpace(label.Text) == "" {
			label = Styled{Text: "image"}
		}
		return linked(label, string(n.Destination))
	case *ast.AutoLink:
		return linked(Styled{Text: string(n.Label(m.source))}, string(n.URL(m.source)))
	case *ast.RawHTML:
		var b strings.Builder
		for i := range n.Segments.Len() {
			segment := n.Segments.At(i)
			b.Write(segment.Value(m.source))
		}
		return Styled{Text: b.String()}
	case *east.TaskCheckBox:
		if n.IsChecked {
			return Styled{Text: "☑ "}
		}
		return Styled{Text: "☐ "}
	}
	return m.inline(n)
}

// linked returns a link. It shows the destination if the label looks like another
// URL, or if chats would not make it a link.
func linked(label Styled, destination string) Styled {
	destination = Clean(string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations([]byte(destination))))))
	if slices.ContainsFunc(label.Spans, func(sp Span) bool { return sp.Style == Link }) {
		label = label.Plain() // an image that is a link
	}
	if label.Text == destination || "mailto:"+label.Text == destination {
		return label // chats show a URL as a link
	}
	u, err := url.Parse(destination)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Contains(label.Text, "://") || strings.HasPrefix(label.Text, "www.") {
		if destination == "" {
			return label
		}
		return label.Plus(Styled{Text: " (" + destination + ")"})
	}
	if strings.TrimSpace(label.Text) == "" {
		return Styled{Text: u.String()}
	}
	return label.as(Link, u.String())
}

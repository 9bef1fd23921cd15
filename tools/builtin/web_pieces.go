package builtin

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// pieces converts the tokens of a page to small, correctly nested documents of few
// kinds of elements.
type pieces struct {
	emit func(piece []byte) error
	base *url.URL

	buf     bytes.Buffer
	open    []element
	run     int    // bytes of text since the start of the block
	columns int    // cells of the open row
	href    string // of the open link; it continues after blocks, as a page may link a heading
	broken  bool   // a block ended; the next text starts a new paragraph
	drop    string // the element that is being removed
	depth   int    // how often drop is open
}

// token adds the tokenizer's current token.
func (p *pieces) token(z *html.Tokenizer, kind html.TokenType) error {
	if p.buf.Len() >= 2*hardPiece {
		if err := p.flush(true); err != nil {
			return err
		}
	}
	switch kind {
	case html.TextToken:
		if p.drop != "" {
			return nil
		}
		return p.text(string(z.Text()))
	case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
		raw, _ := z.TagName()
		name := string(raw)
		if p.skips(name, kind) {
			return nil
		}
		if kind == html.EndTagToken {
			p.end(name)
		} else if err := p.start(name, z); err != nil {
			return err
		}
		if len(p.open) == 0 && p.buf.Len() >= softPiece {
			return p.flush(false)
		}
	}
	return nil
}

// skips reports whether a tag belongs to an element that is removed.
func (p *pieces) skips(name string, kind html.TokenType) bool {
	if p.drop == "" {
		if tagKinds[name] != dropped {
			return false
		}
		// Only SVG and MathML elements end with the slash; <script/> has content.
		if kind == html.StartTagToken || kind == html.SelfClosingTagToken && name != "svg" && name != "math" {
			p.drop, p.depth = name, 1
		}
		return true
	}
	if name == p.drop {
		switch kind {
		case html.StartTagToken:
			p.depth++
		case html.EndTagToken:
			if p.depth--; p.depth == 0 {
				p.drop = ""
			}
		}
	}
	return true
}

func (p *pieces) start(name string, z *html.Tokenizer) error {
	kind := tagKinds[name]
	switch {
	case name == "base":
		p.setBase(attrOf(z, "href"))
		return nil
	case kind == ignored:
		return nil
	case kind == inline:
		return p.startInline(name, z)
	case kind == void:
		return p.startVoid(name, z)
	}
	p.endParagraph()
	inCell := p.nearest(cell, tableTag) >= 0
	switch kind {
	case item:
		if at := p.nearest(list, cell, tableTag); at >= 0 {
			p.closeTo(at + 1)
			return p.push(element{name: name, kind: kind})
		}
	case row:
		if at := p.nearest(tableTag); at >= 0 {
			p.closeTo(at + 1)
			p.columns = 0
			return p.push(element{name: name, kind: kind})
		}
	case cell:
		return p.startCell(name)
	case heading, pre, list, quote, tableTag:
		if inCell || p.nearest(heading, cell) >= 0 || p.nearest(pre) >= 0 || len(p.open) >= maxNesting-4 {
			break // only its text is kept
		}
		if top := p.top(); top != nil && top.kind == list {
			if err := p.push(element{name: "li", kind: item}); err != nil {
				return err
			}
		}
		return p.push(element{name: name, kind: kind})
	}
	p.broken = true
	return nil
}

// startCell opens a cell and, if it is missing, the row.
func (p *pieces) startCell(name string) error {
	table := p.nearest(tableTag)
	at := p.nearest(row, tableTag)
	if table < 0 || at >= 0 && p.columns >= maxColumns {
		p.broken = true
		return nil
	}
	if at < 0 {
		p.closeTo(table + 1)
		p.columns = 0
		if err := p.push(element{name: "tr", kind: row}); err != nil {
			return err
		}
		at = table + 1
	}
	p.closeTo(at + 1)
	p.columns++
	return p.push(element{name: name, kind: cell})
}

// startInline opens an inline element after it closes an open one of that name.
func (p *pieces) startInline(name string, z *html.Tokenizer) error {
	if at := p.find(name); at >= 0 {
		p.closeTo(at)
	}
	if name == "a" {
		p.href = p.link(attrOf(z, "href"))
		return nil
	}
	e := element{name: name, kind: inline}
	inPre := p.nearest(pre) >= 0
	switch {
	case len(p.open) >= maxNesting-1 || inPre && name != "code":
		return nil
	case inPre:
		if p.top().filled {
			return nil
		}
		for class := range strings.FieldsSeq(attrOf(z, "class")) {
			if strings.HasPrefix(class, "language-") && len(class) < 40 {
				e.markup = `<code class="` + html.EscapeString(class) + `">`
			}
		}
	}
	if err := p.ready(); err != nil {
		return err
	}
	return p.push(e)
}

func (p *pieces) startVoid(name string, z *html.Tokenizer) error {
	tight := p.nearest(cell, tableTag) >= 0 || p.nearest(heading) >= 0
	switch {
	case name == "br" && p.nearest(pre) >= 0:
		p.write("\n")
	case name == "br" && tight:
		p.write(" ")
	case name == "br":
		if err := p.ready(); err != nil {
			return err
		}
		p.write("<br>")
	case name == "hr" && !tight && p.nearest(pre, list) < 0:
		p.endParagraph()
		p.write("<hr>")
	case name == "img" && p.nearest(pre) < 0:
		alt, src := "", ""
		eachAttr(z, func(name, value string) {
			switch name {
			case "alt":
				alt = value
			case "src":
				src = p.link(value)
			}
		})
		if src == "" || len(alt) > maxHref { // a data: URL is not text
			return p.text(alt)
		}
		if err := p.ready(); err != nil {
			return err
		}
		p.write(`<img src="` + html.EscapeString(src) + `" alt="` + html.EscapeString(alt) + `">`)
	}
	return nil
}

func (p *pieces) end(name string) {
	kind := tagKinds[name]
	at := -1
	switch kind {
	case ignored, void:
		return
	case inline:
		if at = p.find(name); at >= 0 {
			p.closeTo(at)
		}
		if name == "a" {
			p.href = ""
		}
		return
	case row, cell:
		at = p.nearest(kind, tableTag)
	case tableTag:
		at = p.nearest(tableTag)
	case item:
		at = p.nearest(item, list, cell)
	default:
		at = p.nearest(kind, cell)
	}
	p.endParagraph()
	if at >= 0 && p.open[at].kind == kind {
		p.closeTo(at)
	}
	p.broken = true
}

// textChunk is the largest text, in bytes, that is written at once.
const textChunk = 4 << 10

func (p *pieces) text(text string) error {
	if strings.TrimSpace(text) == "" && p.nearest(pre) < 0 {
		if top := p.top(); top != nil && top.filled && (top.kind == inline || top.kind == paragraph || top.kind == heading || top.kind == cell || top.kind == item) {
			p.write(" ")
		}
		return nil
	}
	for len(text) > 0 {
		n := min(len(text), textChunk)
		for n > textChunk-utf8.UTFMax && n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		if space := strings.LastIndexAny(text[:n], " \n"); n < len(text) && space > n/2 {
			n = space + 1 // do not split a word
		}
		if err := p.ready(); err != nil {
			return err
		}
		p.write(html.EscapeString(text[:n]))
		p.run += n
		text = text[n:]
	}
	return nil
}

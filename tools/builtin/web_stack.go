package builtin

import (
	"slices"

	"golang.org/x/net/html"
)

const (
	// softPiece is the size, in bytes, from which a piece ends if no element is open.
	// From hardPiece on it ends at the next item, row or paragraph, and from twice
	// hardPiece on anywhere.
	softPiece = 8 << 10
	hardPiece = 16 << 10
	// maxRun is the longest text, in bytes, in one block of a piece, because for each
	// bracket the converter scans the whole line.
	maxRun = 8 << 10
	// maxNesting is how many elements may be open. Of deeper ones only the text is
	// kept.
	maxNesting = 16
	// maxColumns is how many cells a row may have; later ones join the last cell.
	maxColumns = 64
	// maxHref is the longest link, in bytes.
	maxHref = 2 << 10
)

type element struct {
	name   string
	kind   tagKind
	markup string // the opening tag
	filled bool   // it has content
}

// paragraph is the kind of the paragraphs that text opens automatically.
const paragraph tagKind = -1

// ready opens the elements that text needs.
func (p *pieces) ready() error {
	if p.buf.Len() >= 2*hardPiece || p.run >= maxRun && p.nearest(pre) < 0 { // within a long text
		if err := p.flush(true); err != nil {
			return err
		}
	}
	if err := p.container(); err != nil {
		return err
	}
	if p.href != "" && p.find("a") < 0 && p.nearest(pre) < 0 {
		return p.push(element{name: "a", kind: inline, markup: `<a href="` + html.EscapeString(p.href) + `">`})
	}
	return nil
}

// container opens the paragraph, the item or the cell that is missing.
func (p *pieces) container() error {
	top := p.top()
	switch {
	case top == nil, top.kind == quote:
		return p.push(element{name: "p", kind: paragraph})
	case top.kind == list:
		return p.push(element{name: "li", kind: item})
	case top.kind == tableTag, top.kind == row:
		return p.startCell("td")
	case top.kind == item && p.broken && top.filled:
		return p.push(element{name: "p", kind: paragraph})
	case top.kind == pre && p.broken && top.filled:
		p.write("\n")
	case p.broken && top.filled:
		p.write(" ")
	}
	p.broken = false
	return nil
}

// push opens an element. A new item, row or paragraph may start a new piece.
func (p *pieces) push(e element) error {
	if e.kind != inline && e.kind != cell && p.buf.Len() >= hardPiece {
		if err := p.flush(true); err != nil {
			return err
		}
	}
	if e.markup == "" {
		e.markup = "<" + e.name + ">"
	}
	if e.kind != inline {
		p.run = 0
	}
	p.write(e.markup)
	p.open = append(p.open, e)
	p.broken = false
	return nil
}

func (p *pieces) write(markup string) {
	for i := range p.open {
		p.open[i].filled = true
	}
	p.buf.WriteString(markup)
}

// endParagraph closes the open inline elements and the paragraph.
func (p *pieces) endParagraph() {
	for len(p.open) > 0 && (p.top().kind == inline || p.top().kind == paragraph) {
		p.closeTo(len(p.open) - 1)
	}
}

// closeTo closes all elements from at on.
func (p *pieces) closeTo(at int) {
	for len(p.open) > at {
		top := p.top()
		p.buf.WriteString("</" + top.name + ">")
		if top.kind != inline {
			p.broken = true
		}
		p.open = p.open[:len(p.open)-1]
	}
}

// flush emits a piece. It closes the open elements and, if more is true, opens them
// again in the next piece.
func (p *pieces) flush(more bool) error {
	open := slices.Clone(p.open)
	broken := p.broken
	p.closeTo(0)
	if p.buf.Len() > 0 {
		if err := p.emit(p.buf.Bytes()); err != nil {
			return err
		}
		p.buf.Reset()
	}
	p.run = 0
	if !more {
		return nil
	}
	p.broken = broken
	for _, e := range open {
		p.buf.WriteString(e.markup)
		p.open = append(p.open, element{name: e.name, kind: e.kind, markup: e.markup})
	}
	return nil
}

func (p *pieces) top() *element {
	if len(p.open) == 0 {
		return nil
	}
	return &p.open[len(p.open)-1]
}

// nearest returns the innermost open element of a kind, or -1 if there is none outside
// the innermost element of a kind in until.
func (p *pieces) nearest(kind tagKind, until ...tagKind) int {
	for i := len(p.open) - 1; i >= 0; i-- {
		switch k := p.open[i].kind; {
		case k == kind:
			return i
		case slices.Contains(until, k):
			return -1
		}
	}
	return -1
}

// find returns the open inline element of a name, or -1.
func (p *pieces) find(name string) int {
	for i := len(p.open) - 1; i >= 0 && p.open[i].kind == inline; i-- {
		if p.open[i].name == name {
			return i
		}
	}
	return -1
}

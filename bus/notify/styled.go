package notify

import (
	"slices"
	"strings"
)

// style says how a part of a text looks.
type style byte

const (
	bold style = iota
	italic
	strike
	code  // within a line
	block // lines of code, or a table
	link
)

// span is a part of a text that looks different, from one byte to before
// another. Spans nest or are apart, an outer one comes first.
type span struct {
	from, to int
	style    style
	url      string // of a link
}

func (s span) holdsCode(inner span) bool {
	return (inner.style == code || inner.style == block) && s.from <= inner.from && inner.to <= s.to
}

// styled is a text as people read it, and what is special about parts of it.
// Cut anywhere, each piece is whole, as Markdown would not be.
type styled struct {
	text  string
	spans []span
}

// plus returns both texts in a row; s is used up.
func (s styled) plus(more styled) styled {
	for _, sp := range more.spans {
		sp.from, sp.to = sp.from+len(s.text), sp.to+len(s.text)
		s.spans = append(s.spans, sp)
	}
	s.text += more.text
	return s
}

// as returns the text, all of it in one style more.
func (s styled) as(st style, url string) styled {
	if strings.TrimSpace(s.text) == "" {
		return s
	}
	return styled{s.text, slices.Insert(slices.Clone(s.spans), 0, span{0, len(s.text), st, url})}
}

// slice returns the text between two bytes.
func (s styled) slice(from, to int) styled {
	part := styled{text: s.text[from:to]}
	for _, sp := range s.spans {
		if sp.from, sp.to = max(sp.from, from)-from, min(sp.to, to)-from; sp.from < sp.to {
			part.spans = append(part.spans, sp)
		}
	}
	return part
}

// trimmed returns the text without white space around it.
func (s styled) trimmed() styled {
	from := len(s.text) - len(strings.TrimLeft(s.text, " \t\n"))
	to := len(strings.TrimRight(s.text, " \t\n"))
	return s.slice(min(from, to), to)
}

// indented returns the text with something before its first line, and before
// each of the others.
func (s styled) indented(first, rest string) styled {
	var ends []int // of the lines but the last
	for i := range len(s.text) {
		if s.text[i] == '\n' {
			ends = append(ends, i)
		}
	}
	moved := func(at int) int {
		lines, _ := slices.BinarySearch(ends, at)
		return at + len(first) + lines*len(rest)
	}
	out := styled{text: first + strings.ReplaceAll(s.text, "\n", "\n"+rest)}
	for _, sp := range s.spans {
		for _, line := range perLine(s.text, sp) { // what is put before the lines is no part of it
			out.spans = append(out.spans, span{moved(line.from), moved(line.to), line.style, line.url})
		}
	}
	return out
}

// split cuts the text as the function split does, into pieces that are whole.
func (s styled) split(limit int, measure unit) []styled {
	parts, left := ranges(s.text, limit, measure)
	pieces := make([]styled, len(parts))
	for i, p := range parts {
		pieces[i] = s.slice(p.from, p.to)
	}
	if left > 0 {
		pieces[len(pieces)-1] = pieces[len(pieces)-1].plus(styled{text: leftOut(left)})
	}
	return pieces
}

// readable returns the text for where nothing can be styled, with the addresses
// of its links.
func (s styled) readable() styled {
	var b strings.Builder
	at := 0
	for _, sp := range s.spans {
		if sp.style == link && sp.to >= at && s.text[sp.from:sp.to] != sp.url {
			b.WriteString(s.text[at:sp.to] + " (" + sp.url + ")")
			at = sp.to
		}
	}
	return styled{text: b.String() + s.text[at:]}
}

// marked writes the text with marks around its spans. Where a style may not go
// over the end of a line, as no style but block does, it begins anew. write makes
// of the text between marks what is to be sent.
func (s styled) marked(mark func(sp span, inner string) (before, after string), write func(string) string) string {
	var spans []span
	for _, sp := range s.spans {
		spans = append(spans, perLine(s.text, sp)...)
	}
	return render(s.text, 0, len(s.text), spans, mark, write)
}

func perLine(text string, sp span) (lines []span) {
	if sp.style == block {
		return []span{sp}
	}
	at := sp.from
	for line := range strings.SplitSeq(text[sp.from:sp.to], "\n") {
		from := at + len(line) - len(strings.TrimLeft(line, " \t"))
		if to := at + len(strings.TrimRight(line, " \t")); from < to {
			lines = append(lines, span{from, to, sp.style, sp.url})
		}
		at += len(line) + 1
	}
	return lines
}

// render writes text[from:to], whose spans these are.
func render(text string, from, to int, spans []span, mark func(span, string) (string, string), write func(string) string) string {
	slices.SortStableFunc(spans, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var b strings.Builder
	at := from
	for i := 0; i < len(spans); {
		outer := spans[i]
		end := i + 1
		for end < len(spans) && spans[end].from < outer.to {
			spans[end].to = min(spans[end].to, outer.to)
			end++
		}
		b.WriteString(write(text[at:outer.from]))
		before, after := mark(outer, text[outer.from:outer.to])
		inner := spans[i+1 : end]
		if outer.style == code || outer.style == block {
			inner = nil // code is shown as it is
		}
		b.WriteString(before + render(text, outer.from, outer.to, slices.Clone(inner), mark, write) + after)
		at, i = outer.to, end
	}
	b.WriteString(write(text[at:to]))
	return b.String()
}

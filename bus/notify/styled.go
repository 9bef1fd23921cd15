package notify

import (
	"slices"
	"strings"
)

// style is the look of a part of a text.
type style byte

const (
	bold style = iota
	italic
	strike
	code  // within a line
	block // lines of code, or a table
	link
)

// span is the style of the bytes from up to, not including, to. Spans nest or are
// disjoint. An outer span comes first.
type span struct {
	from, to int
	style    style
	url      string // of a link
}

func (s span) holdsCode(inner span) bool {
	return (inner.style == code || inner.style == block) && s.from <= inner.from && inner.to <= s.to
}

// styled is a text without markup, and its styles. Unlike Markdown, it can be cut
// anywhere.
type styled struct {
	text  string
	spans []span
}

// plus appends a text. It may change the spans of s.
func (s styled) plus(more styled) styled {
	for _, sp := range more.spans {
		sp.from, sp.to = sp.from+len(s.text), sp.to+len(s.text)
		s.spans = append(s.spans, sp)
	}
	s.text += more.text
	return s
}

// as adds a style to the whole text.
func (s styled) as(st style, url string) styled {
	if strings.TrimSpace(s.text) == "" {
		return s
	}
	return styled{s.text, slices.Insert(slices.Clone(s.spans), 0, span{0, len(s.text), st, url})}
}

// slice returns the bytes from up to, not including, to.
func (s styled) slice(from, to int) styled {
	part := styled{text: s.text[from:to]}
	for _, sp := range s.spans {
		if sp.from, sp.to = max(sp.from, from)-from, min(sp.to, to)-from; sp.from < sp.to {
			part.spans = append(part.spans, sp)
		}
	}
	return part
}

// trimmed removes white space at both ends.
func (s styled) trimmed() styled {
	from := len(s.text) - len(strings.TrimLeft(s.text, " \t\n"))
	to := len(strings.TrimRight(s.text, " \t\n"))
	return s.slice(min(from, to), to)
}

// indented adds prefixes to the first line and to each of the other lines.
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
		for _, line := range perLine(s.text, sp) { // without the prefixes of the lines
			out.spans = append(out.spans, span{moved(line.from), moved(line.to), line.style, line.url})
		}
	}
	return out
}

// split splits the text as ranges does, and appends a note if it cuts the text.
func (s styled) split(limit int, measure unit) []styled {
	parts, omitted := ranges(s.text, limit, measure)
	pieces := make([]styled, len(parts))
	for i, p := range parts {
		pieces[i] = s.slice(p.from, p.to)
	}
	if omitted > 0 {
		pieces[len(pieces)-1] = pieces[len(pieces)-1].plus(styled{text: cutNote(omitted)})
	}
	return pieces
}

// plain returns the text without styles, with the URLs of its links.
func (s styled) plain() styled {
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

// markup writes the text with marks around its spans. A span that crosses the end
// of a line, other than a block, is written once per line. escape is applied to
// the text between marks, and escapeCode to code.
func (s styled) markup(mark func(sp span, inner string) (before, after string), escape, escapeCode func(string) string) string {
	var spans []span
	for _, sp := range s.spans {
		spans = append(spans, perLine(s.text, sp)...)
	}
	return render(s.text, 0, len(s.text), spans, mark, escape, escapeCode)
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

// render writes text[from:to] with its spans.
func render(text string, from, to int, spans []span, mark func(span, string) (string, string), escape, escapeCode func(string) string) string {
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
		b.WriteString(escape(text[at:outer.from]))
		before, after := mark(outer, text[outer.from:outer.to])
		inner, escapeInner := spans[i+1:end], escape
		if outer.style == code || outer.style == block {
			inner, escapeInner = nil, escapeCode // code contains no other style
		}
		b.WriteString(before + render(text, outer.from, outer.to, slices.Clone(inner), mark, escapeInner, escapeCode) + after)
		at, i = outer.to, end
	}
	b.WriteString(escape(text[at:to]))
	return b.String()
}

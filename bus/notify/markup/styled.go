package markup

import (
	"fmt"
	"slices"
	"strings"
)

// Style is the look of a part of a text.
type Style byte

// Styles.
const (
	Bold Style = iota
	Italic
	Strike
	Code  // within a line
	Block // lines of code, or a table
	Link
	quotedMark // "> " at the start of a quoted line
)

// Span is the style of the bytes From up to, not including, To. Spans nest or are
// disjoint. An outer span comes first.
type Span struct {
	From, To int
	Style    Style
	URL      string // of a link
	Language string // of code, or empty
}

// HoldsCode reports whether s is around code.
func (s Span) HoldsCode(inner Span) bool {
	return (inner.Style == Code || inner.Style == Block) && s.From <= inner.From && inner.To <= s.To
}

// Styled is a text without markup, and its styles. Unlike Markdown, it can be cut
// anywhere.
type Styled struct {
	Text  string
	Spans []Span
}

// Plus appends a text. It may change the spans of s.
func (s Styled) Plus(more Styled) Styled {
	for _, sp := range more.Spans {
		sp.From, sp.To = sp.From+len(s.Text), sp.To+len(s.Text)
		s.Spans = append(s.Spans, sp)
	}
	s.Text += more.Text
	return s
}

// as adds a style to the whole text.
func (s Styled) as(st Style, url string) Styled {
	if strings.TrimSpace(s.Text) == "" {
		return s
	}
	return Styled{s.Text, slices.Insert(slices.Clone(s.Spans), 0, Span{To: len(s.Text), Style: st, URL: url})}
}

// slice returns the bytes from up to, not including, to.
func (s Styled) slice(from, to int) Styled {
	part := Styled{Text: s.Text[from:to]}
	for _, sp := range s.Spans {
		if sp.From, sp.To = max(sp.From, from)-from, min(sp.To, to)-from; sp.From < sp.To {
			part.Spans = append(part.Spans, sp)
		}
	}
	return part
}

// trimmed removes white space at both ends.
func (s Styled) trimmed() Styled {
	from := len(s.Text) - len(strings.TrimLeft(s.Text, " \t\n"))
	to := len(strings.TrimRight(s.Text, " \t\n"))
	return s.slice(min(from, to), to)
}

// indented adds prefixes to the first line and to each of the other lines.
func (s Styled) indented(first, rest string) Styled {
	var ends []int // of the lines but the last
	for i := range len(s.Text) {
		if s.Text[i] == '\n' {
			ends = append(ends, i)
		}
	}
	moved := func(at int) int {
		lines, _ := slices.BinarySearch(ends, at)
		return at + len(first) + lines*len(rest)
	}
	out := Styled{Text: first + strings.ReplaceAll(s.Text, "\n", "\n"+rest)}
	for _, sp := range s.Spans {
		for _, line := range perLine(s.Text, sp) { // without the prefixes of the lines
			line.From, line.To = moved(line.From), moved(line.To)
			out.Spans = append(out.Spans, line)
		}
	}
	return out
}

// quoted returns the lines of s as a quote.
func (s Styled) quoted() Styled {
	s = s.indented(quoteMark, quoteMark)
	for at, line := 0, ""; at < len(s.Text); at += len(line) {
		line, _, _ = strings.Cut(s.Text[at:], "\n")
		s.Spans = append(s.Spans, Span{From: at, To: at + len(quoteMark), Style: quotedMark})
		line += "\n"
	}
	return s
}

const quoteMark = "> "

// Quotes returns s without the marks of quotes, and the ranges of bytes that are quotes. If nothing
// visible would be left, the marks stay, as text.
func (s Styled) Quotes() (out Styled, quotes []Span) {
	marks := slices.DeleteFunc(slices.Clone(s.Spans), func(sp Span) bool { return sp.Style != quotedMark })
	slices.SortStableFunc(marks, func(a, b Span) int { return a.From - b.From })
	at := 0
	for _, mark := range marks {
		if mark.From < at {
			continue
		}
		out = out.Plus(s.slice(at, mark.From))
		line, _, _ := strings.Cut(s.Text[mark.To:], "\n")
		from, to := len(out.Text), len(out.Text)+len(line)
		if n := len(quotes); n > 0 && from <= quotes[n-1].To+1 {
			quotes[n-1].To = to
		} else {
			quotes = append(quotes, Span{From: from, To: to})
		}
		at = mark.To
	}
	out = out.Plus(s.slice(at, len(s.Text)))
	if strings.TrimSpace(out.Text) == "" {
		out, quotes = s, nil
	}
	out.Spans = slices.DeleteFunc(slices.Clone(out.Spans), func(sp Span) bool { return sp.Style == quotedMark })
	return out, slices.DeleteFunc(quotes, func(sp Span) bool { return sp.From == sp.To })
}

// Split splits the text as ranges does, and appends a note if it cuts the text.
func (s Styled) Split(limit int, measure Unit) []Styled {
	parts, omitted := ranges(s.Text, limit, measure)
	pieces := make([]Styled, len(parts))
	for i, p := range parts {
		pieces[i] = s.slice(p.from, p.to)
	}
	if omitted > 0 {
		pieces[len(pieces)-1] = pieces[len(pieces)-1].Plus(Styled{Text: fmt.Sprintf("\n[cut: %d more characters]", omitted)})
	}
	return pieces
}

// Plain returns the text without styles, with the URLs of its links.
func (s Styled) Plain() Styled {
	var b strings.Builder
	at := 0
	for _, sp := range s.Spans {
		if sp.Style == Link && sp.To >= at && s.Text[sp.From:sp.To] != sp.URL {
			b.WriteString(s.Text[at:sp.To] + " (" + sp.URL + ")")
			at = sp.To
		}
	}
	return Styled{Text: b.String() + s.Text[at:]}
}

// markup writes the text with marks around its spans. A span that crosses the end
// of a line, other than a block, is written once per line. escape is applied to
// the text between marks, and escapeCode to code.
func (s Styled) markup(mark func(sp Span, inner string) (before, after string), escape, escapeCode func(string) string) string {
	var spans []Span
	for _, sp := range s.Spans {
		spans = append(spans, perLine(s.Text, sp)...)
	}
	return render(s.Text, 0, len(s.Text), spans, mark, escape, escapeCode)
}

func perLine(text string, sp Span) (lines []Span) {
	if sp.Style == Block || sp.Style == quotedMark {
		return []Span{sp}
	}
	at := sp.From
	for line := range strings.SplitSeq(text[sp.From:sp.To], "\n") {
		from := at + len(line) - len(strings.TrimLeft(line, " \t"))
		if to := at + len(strings.TrimRight(line, " \t")); from < to {
			lines = append(lines, Span{From: from, To: to, Style: sp.Style, URL: sp.URL})
		}
		at += len(line) + 1
	}
	return lines
}

// render writes text[from:to] with its spans.
func render(text string, from, to int, spans []Span, mark func(Span, string) (string, string), escape, escapeCode func(string) string) string {
	slices.SortStableFunc(spans, func(a, b Span) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return b.To - a.To
	})
	var b strings.Builder
	at := from
	for i := 0; i < len(spans); {
		outer := spans[i]
		end := i + 1
		for end < len(spans) && spans[end].From < outer.To {
			spans[end].To = min(spans[end].To, outer.To)
			end++
		}
		b.WriteString(escape(text[at:outer.From]))
		before, after := mark(outer, text[outer.From:outer.To])
		inner, escapeInner := spans[i+1:end], escape
		if outer.Style == Code || outer.Style == Block || outer.Style == quotedMark {
			inner, escapeInner = nil, escapeCode // code contains no other style
		}
		b.WriteString(before + render(text, outer.From, outer.To, slices.Clone(inner), mark, escapeInner, escapeCode) + after)
		at, i = outer.To, end
	}
	b.WriteString(escape(text[at:to]))
	return b.String()
}

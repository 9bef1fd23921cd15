package markup

import (
	"cmp"
	"slices"
)

// Run is a part of a text in which the style does not change.
type Run struct {
	Text string `json:"text"`
	// Styles are those of styleNames.
	Styles []string `json:"styles,omitempty"`
	// URL of a link, as its author wrote it.
	URL string `json:"url,omitempty"`
}

// styleNames are the names of the styles, in their order.
var styleNames = []string{"bold", "italic", "strike", "code", "block", "link"}

// Runs returns the text in parts, for readers that cannot nest spans.
func (s Styled) Runs() (runs []Run) {
	borders := []int{0, len(s.Text)}
	for _, sp := range s.Spans {
		borders = append(borders, sp.From, sp.To)
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	next := slices.Clone(s.Spans)
	slices.SortStableFunc(next, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var open []Span // those of the run
	for i, from := range borders[:len(borders)-1] {
		for ; len(next) > 0 && next[0].From <= from; next = next[1:] {
			open = append(open, next[0])
		}
		open = slices.DeleteFunc(open, func(sp Span) bool { return sp.To <= from })
		run := Run{Text: s.Text[from:borders[i+1]]}
		for _, sp := range open {
			if sp.Style == quotedMark {
				continue
			}
			if name := styleNames[sp.Style]; !slices.Contains(run.Styles, name) {
				run.Styles = append(run.Styles, name)
			}
			if sp.Style == Link {
				run.URL = sp.URL
			}
		}
		runs = append(runs, run)
	}
	return runs
}

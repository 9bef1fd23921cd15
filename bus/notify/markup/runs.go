package markup

import "slices"

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
	for i, from := range borders[:len(borders)-1] {
		run := Run{Text: s.Text[from:borders[i+1]]}
		for _, sp := range s.Spans {
			if sp.Style != QuoteMark && sp.From <= from && from < sp.To {
				run.Styles = append(run.Styles, styleNames[sp.Style])
				if sp.Style == Link {
					run.URL = sp.URL
				}
			}
		}
		runs = append(runs, run)
	}
	return runs
}

package markup

import (
	"slices"
	"strings"
	"testing"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range Parse("a **b *c*** `d`\n\n```\ne\n```\n[f](https://g.example)").Runs() {
		got = append(got, strings.TrimSpace(r.Text)+" "+strings.Join(r.Styles, "+")+r.URL)
	}
	if want := "a |b bold|c bold+italic| |d code| |e block| |f linkhttps://g.example"; strings.Join(got, "|") != want {
		t.Errorf("%s, want %s", strings.Join(got, "|"), want)
	}
	if got := (Styled{}).Runs(); got != nil {
		t.Errorf("no text has the runs %v", got)
	}
}

// A text of one megabyte has 200,000 spans. The page and the terminal show their runs.
func TestRunsOfManySpans(t *testing.T) {
	const n = 200_000
	italic := 0
	for _, r := range Parse(strings.Repeat("*a*\n\n", n)).Runs() {
		if r.Text == "a" && slices.Equal(r.Styles, []string{"italic"}) {
			italic++
		}
	}
	if italic != n {
		t.Errorf("%d runs in italics, want %d", italic, n)
	}
}

package markup

import (
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

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// A list fits the terminal: its long texts end between words, then the least useful columns go.
// Names stay whole.
func TestFit(t *testing.T) {
	rows := [][]string{
		{"SESSION", "TITLE", "TURNS", "TOKENS IN", "TOKENS OUT", "COST", "LAST", "STATE"},
		{"harbour/1", "Which containers were moved with errors last night, and by whom?", "12", "120000", "3000", "0.1234", strings.ReplaceAll("2026-11-27 09:32:37 +0000", " ", NoBreak), "done"},
		{"a-session-with-a-name-of-a-certain-length", "日本語のとても長い題名 があります", "1", "1", "1", "-", strings.ReplaceAll("2026-11-27 09:32:37 +0000", " ", NoBreak), "open"},
	}
	for _, columns := range []int{200, 120, 100, 80, 60, 40, 20} {
		got, hidden := fit(rows, columns)
		for i, row := range got {
			width := -columnGap
			for j := range row {
				widest := 0
				for _, other := range got {
					widest = max(widest, text.StringWidth(other[j]))
				}
				width += widest + columnGap
			}
			if width > columns && len(row) > 1 {
				t.Errorf("%d columns: the table has %d", columns, width)
			}
			if row[0] != rows[i][0] || len(row)+len(hidden) != len(rows[0]) {
				t.Errorf("%d columns: %q, without %q", columns, row, hidden)
			}
			for j, cell := range row {
				if cut, ok := strings.CutSuffix(cell, "…"); ok && j == len(row)-1 {
					cell = cut
				}
				begin := strings.TrimSuffix(cell, " …")
				if !slices.ContainsFunc(rows[i], func(whole string) bool {
					return whole == cell || strings.HasPrefix(whole, cell+":") || strings.HasPrefix(whole, begin+" ") || j == len(row)-1 && strings.HasPrefix(whole, cell)
				}) {
					t.Errorf("%d columns: %q is cut in a word", columns, cell)
				}
			}
		}
		if (columns == 200) != (len(hidden) == 0 && got[1][1] == rows[1][1]) {
			t.Errorf("%d columns: %q, without %q", columns, got, hidden)
		}
	}
	calls := [][]string{{"AT", "STEP", "TEXT"}, {"+1s", "call read_file", `{"path":"` + strings.Repeat("d", 100) + `"}`}}
	if got, hidden := fit(calls, 60); len(hidden) > 0 || !strings.HasPrefix(got[1][2], `{"path":"ddd`) || !strings.HasSuffix(got[1][2], "…") {
		t.Errorf("arguments: %q, without %q", got, hidden)
	}
	at := strings.ReplaceAll("2026-12-21 09:00:00 +0100", " ", NoBreak)
	jobs := [][]string{
		{"NAME", "SESSION", "WHEN", "CALLS", "NEXT", "LAST", "OUTCOME"},
		{"backup", "work", "every 5s", `shell "make backup; exit 4"`, at, at, "failed: exit status 4: no space left on device"},
		{"report", "default", at, `shell "./report --of the-whole-year"`, at, "-", "-"},
		{"weekly", "default", `cron "30 9 * * 1-5" in Europe/Berlin`, "shell", at, at, "completed"},
	}
	for _, columns := range []int{80, 60, 40} {
		got, hidden := fit(jobs, columns)
		last := len(got[0]) - 1
		if got[0][last] != "OUTCOME" || !strings.HasPrefix(got[1][last], "failed: ") || hidden[0] != "LAST" || hidden[1] != "SESSION" {
			t.Errorf("%d columns: %q, without %q", columns, got, hidden)
		}
		if columns == 80 && (len(hidden) != 2 || got[2][1] != strings.ReplaceAll("2026-12-21 09:00", " ", NoBreak) || !strings.HasPrefix(got[3][1], `cron "30 9`)) {
			t.Errorf("%q, without %q", got, hidden)
		}
	}
	list := [][]string{rows[0], {"s1", "Which containers were moved last night, and by whom?", "12", "95301", "42", "95.3850", at, "done"}}
	if got, hidden := fit(list, 80); text.StringWidth(got[1][1]) < goodText || slices.Contains(hidden, "LAST") {
		t.Errorf("%q, without %q", got, hidden)
	}
	step := strings.ReplaceAll("    call get_knowledge_by_lines", " ", NoBreak)
	trace := [][]string{{"AT", "TOOK", "STEP", "STATE", "COST", "TEXT"}, {"+12.343s", "12.343s", step, "completed", "84.8500", "seq 1 30000; echo needle"}}
	if got, hidden := fit(trace, 80); got[1][2] != step || got[1][5] != "seq 1 …" {
		t.Errorf("%q, without %q", got, hidden)
	}
	if _, hidden := fit(rows, 100); len(hidden) > 0 && hidden[0] != "TOKENS OUT" {
		t.Errorf("without %q", hidden)
	}
}

// One name of any length hides nothing of the others.
func TestFitLongName(t *testing.T) {
	got, hidden := fit([][]string{{"SESSION", "TITLE", "STATE"}, {strings.Repeat("n", 300), "A title", "done"}, {"s1", "Another title", "open"}}, 80)
	if len(hidden) > 0 || got[1][0] != strings.Repeat("n", 47)+"…" || got[2][2] != "open" {
		t.Errorf("%q, without %q", got, hidden)
	}
}

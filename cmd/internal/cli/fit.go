package cli

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	// columnGap is the space between columns, and minText the least width of a text that is cut.
	columnGap = 2
	minText   = 16
	minLast   = 9  // of the last column, such as "failed: …"
	goodText  = 24 // for which less useful columns go
	maxName   = 48 // of the first column, if the terminal is not twice as wide: it stays whole up to this
)

// leastUseful are the columns that a narrow terminal does without, the first one first. Then go
// those at the right, but not how something ended.
var leastUseful = []string{"REPLICAS", "LEADER", "CACHED", "VERSION", "TOKENS OUT", "TOKENS IN", "TURNS", "OLDEST", "LAST", "SESSION", "WORKER"}

// fit makes a table, whose first row has the titles, fit a number of columns of a terminal. It shortens
// times, cuts long texts between words, and then leaves out columns. hidden are the titles of these.
func fit(rows [][]string, columns int) (fitted [][]string, hidden []string) {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i] = slices.Clone(rows[i])
	}
	for len(rows[0]) > 1 {
		over := -columnGap - columns
		widths := widthsOf(rows)
		for _, width := range widths {
			over += width + columnGap
		}
		if over <= 0 {
			break
		}
		if shortenTimes(rows) {
			continue
		}
		if name := max(columns/2, maxName); widths[0] > name {
			for i := range rows {
				rows[i][0] = text.Snip(rows[i][0], name, "…")
			}
			continue
		}
		var widest []int // the first column stays
		for i := range widths[1:] {
			widest = append(widest, i+1)
		}
		slices.SortStableFunc(widest, func(a, b int) int { return widths[b] - widths[a] })
		if slices.ContainsFunc(widest, func(i int) bool { return widths[i]-over >= goodText && cutColumn(rows, i, widths[i]-over) }) {
			continue
		}
		drop := slices.IndexFunc(leastUseful, func(title string) bool { return slices.Index(rows[0], title) > 0 })
		switch {
		case drop >= 0:
			drop = slices.Index(rows[0], leastUseful[drop])
		case slices.ContainsFunc(widest, func(i int) bool {
			least := minText
			if i == len(rows[0])-1 {
				least = minLast
			}
			return cutColumn(rows, i, max(least, widths[i]-over))
		}):
			continue
		case len(rows[0]) > 2 && rows[0][len(rows[0])-1] == "OUTCOME":
			drop = len(rows[0]) - 2
		default:
			drop = len(rows[0]) - 1
		}
		hidden = append(hidden, rows[0][drop])
		for i := range rows {
			rows[i] = slices.Delete(rows[i], drop, drop+1)
		}
	}
	return rows, hidden
}

// longTime is a time as rows have it, with what a narrow terminal does without.
var longTime = lazyregexp.New(`^(\d{4}-\d\d-\d\d` + NoBreak + `\d\d:\d\d):\d\d` + NoBreak + `[+-]\d{4}$`)

// shortenTimes takes the seconds and the offset from times, and reports whether there was one.
func shortenTimes(rows [][]string) (shortened bool) {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = longTime.ReplaceAllString(cell, "$1")
			shortened = shortened || row[i] != cell
		}
	}
	return shortened
}

// widthsOf returns the width of each column.
func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidth(cell))
		}
	}
	return widths
}

// cutColumn cuts the cells of a column between words, those of the last column also in a word, and reports
// whether the column is narrower now.
func cutColumn(rows [][]string, column, limit int) bool {
	cut, before, after := make([]string, len(rows)), 0, 0
	for i, row := range rows {
		cut[i] = row[column]
		for text.StringWidth(cut[i]) > limit {
			space := strings.LastIndexByte(strings.TrimSuffix(cut[i], " …"), ' ')
			if column == len(row)-1 && !strings.Contains(row[column], NoBreak) && text.StringWidth(cut[i][:max(0, space)]) < limit/2 {
				cut[i] = text.Snip(row[column], limit, "…")
				break
			}
			if space <= 0 {
				break
			}
			cut[i] = strings.TrimRight(cut[i][:space], " ") + " …"
		}
		before, after = max(before, text.StringWidth(row[column])), max(after, text.StringWidth(cut[i]))
	}
	if after >= before {
		return false
	}
	for i := range rows {
		rows[i][column] = cut[i]
	}
	return true
}

// Wide returns a writer to w whose lists are not cut to the width of a terminal.
func Wide(w io.Writer) io.Writer { return wideWriter{w} }

type wideWriter struct{ io.Writer }

// widthOf returns the width of a terminal, or 0 if lists need not fit.
func widthOf(w io.Writer) int {
	file, ok := w.(*os.File)
	if s, isScreen := w.(*screen); isScreen {
		file, ok = s.file, true
	}
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

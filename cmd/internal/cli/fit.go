package cli

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

const (
	// columnGap is the space between columns, and minText the least width of a text that is cut.
	columnGap = 2
	minText   = 16
)

// leastUseful are the columns that a narrow terminal does without, the first one first. Then go
// those at the right.
var leastUseful = []string{"REPLICAS", "LEADER", "CACHED", "VERSION", "TOKENS OUT", "TOKENS IN", "TURNS", "OLDEST", "LAST", "WORKER"}

// fit makes a table, whose first row has the titles, fit a number of columns of a terminal. It cuts
// long texts between words, and then leaves out columns. hidden are the titles of these.
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
		widest := 1
		for i := range widths {
			if i > 0 && widths[i] > widths[widest] {
				widest = i
			}
		}
		if limit := widths[widest] - over; limit >= minText && cutColumn(rows, widest, limit) {
			continue
		}
		drop := -1
		for _, title := range leastUseful {
			if i := slices.Index(rows[0], title); i > 0 {
				drop = i
				break
			}
		}
		if drop < 0 && widths[widest] > minText && cutColumn(rows, widest, minText) {
			continue
		}
		if drop < 0 {
			drop = len(rows[0]) - 1
		}
		hidden = append(hidden, rows[0][drop])
		for i := range rows {
			rows[i] = slices.Delete(rows[i], drop, drop+1)
		}
	}
	return rows, hidden
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

// cutColumn cuts the cells of a column between words, or JSON anywhere, and reports whether each one fits.
func cutColumn(rows [][]string, column, limit int) bool {
	cut := make([]string, len(rows))
	for i, row := range rows {
		cut[i] = row[column]
		for text.StringWidth(cut[i]) > limit {
			space := strings.LastIndexByte(strings.TrimSuffix(cut[i], " …"), ' ')
			if strings.HasPrefix(cut[i], "{") { // arguments have no words
				cut[i] = text.Snip(cut[i], limit, "…")
				continue
			}
			if space <= 0 {
				return false
			}
			cut[i] = strings.TrimRight(cut[i][:space], " ") + " …"
		}
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

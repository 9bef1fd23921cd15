package describe

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// NoTable is the error of a text that is not a table. It says why.
type NoTable string

func (e NoTable) Error() string { return string(e) }

// maxLead is how many lines may precede a table with separators.
const maxLead = 50

// rule matches the line under the names of a table in Markdown, psql and mysql.
var rule = regexp.MustCompile(`^\s*[|+:]?[-:+| ]*-{2,}[-:+| ]*$`)

// frame matches the lines around and between the rows of a table of mysql.
var frame = regexp.MustCompile(`^\s*\+[-+=]+\+\s*$`)

// findRule returns the number of lines before the names of a table with "|" between the cells.
func findRule(head []byte) (at int, ok bool) {
	names, last := "", -1
	for i := 0; i <= maxLead && len(head) > 0; i++ {
		var line []byte
		line, head, _ = bytes.Cut(head, []byte("\n"))
		text := strings.TrimSuffix(string(line), "\r")
		if rule.MatchString(text) && last >= 0 && (strings.Contains(names, "|") || strings.Contains(text, "+") &&
			len(split(names)) == len(strings.Split(text, "+"))) {
			return last, true
		}
		if !frame.MatchString(text) {
			names, last = text, i
		}
	}
	return 0, false
}

// ruled reads the names of a table with "|" between the cells, and the rule below them.
func (r *Rows) ruled() error {
	names, err := r.line()
	if err != nil {
		return err
	}
	under, err := r.line()
	if err != nil {
		return err
	}
	for i, c := range under {
		if c == '+' && under[0] != '|' { // else of Org
			r.Starts = append(r.Starts, i)
		}
	}
	if len(r.Starts) > 0 && r.Starts[0] > 0 { // of psql
		r.Starts = append(r.Starts, len(under))
	}
	r.columns = r.between(names)
	r.Width = len(r.columns)
	r.next = func() ([]string, error) {
		for {
			text, err := r.line()
			switch {
			case err == nil && (frame.MatchString(text) || rule.MatchString(text)):
				continue
			case err != nil:
				return nil, err
			case !strings.Contains(text, "|") && len(r.columns) > 1, strings.TrimSpace(text) == "",
				len(r.columns) == 1 && strings.HasPrefix(strings.TrimSpace(text), "("): // "(2 rows)" of psql
				return nil, r.last("|")
			}
			return r.between(text), nil
		}
	}
	return nil
}

// between returns the cells of a line of psql or mysql, which are between the places of "+" in the
// rule, or those of another line. If a cell has several lines, psql writes "+" behind each but the
// last, and mysql nothing.
func (r *Rows) between(line string) []string {
	framed := len(r.Starts) > 0 && r.Starts[0] == 0
	for framed && r.Width > 0 && !strings.HasSuffix(strings.TrimSpace(line), "|") {
		next, err := r.line()
		if err != nil {
			break
		}
		line += "\n" + next
	}
	text := grid(line, true)
	if len(r.Starts) == 0 {
		return split(line)
	}
	last := len(r.Starts) - 1
	if slices.ContainsFunc(r.Starts, func(at int) bool { return (framed || at < r.Starts[last]) && (at >= len(text) || text[at] != '|') }) {
		return split(line)
	}
	var cells []string
	var open []int // cells with another line
	from := 0
	for i, at := range r.Starts {
		part := text[min(from, len(text)):min(at, len(text))]
		if i == last && !framed {
			part = text[from:]
		}
		cell := inGrid(part)
		if n := len(part); !framed && n == at-from && n > 0 && part[n-1] == '+' {
			open, cell = append(open, i), strings.TrimRight(cell[:len(cell)-1], " ")
		}
		cells, from = append(cells, cell), at+1
	}
	if framed {
		return cells[1:]
	}
	if len(open) > 0 {
		if line, err := r.line(); err == nil {
			for next := r.between(line); len(open) > 0 && open[0] < len(next); open = open[1:] {
				cells[open[0]] += "\n" + next[open[0]]
			}
		}
	}
	return cells
}

// split returns the cells of a line. A "|" in a cell is written as \|.
func split(line string) []string {
	line = strings.TrimSpace(line)
	framed := strings.HasPrefix(line, "|")
	line = strings.ReplaceAll(strings.TrimPrefix(line, "|"), `\|`, "\x00")
	if framed {
		line = strings.TrimSuffix(line, "|")
	}
	cells := strings.Split(line, "|")
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|")
	}
	return cells
}

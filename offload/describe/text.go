package describe

import (
	"bytes"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// NoTable is the error of a text that is not a table. It says why.
type NoTable string

func (e NoTable) Error() string { return string(e) }

// maxLead is how many lines may precede a table with separators.
const maxLead = 50

// rule matches the line under the names of a table in Markdown, psql and mysql.
var rule = lazyregexp.New(`^\s*[|+:]?[-:+| ]*-{2,}[-:+| ]*$`)

// frame matches the lines around and between the rows of a table of mysql.
var frame = lazyregexp.New(`^\s*\+[-+=]+\+\s*$`)

// boxes replaces the lines that some programs draw around cells.
var boxes = strings.NewReplacer("│", "|", "┃", "|", "║", "|", "─", "-", "━", "-", "═", "-", "┌", "+", "┬", "+", "┐", "+", "├", "+", "┼", "+", "┤", "+",
	"└", "+", "┴", "+", "┘", "+", "╞", "+", "╪", "+", "╡", "+", "┏", "+", "┳", "+", "┓", "+", "┡", "+", "╇", "+", "┩", "+", "╭", "+", "╮", "+", "╰", "+", "╯", "+")

// findRule returns the number of lines before the names of a table with "|" between the cells.
func findRule(head []byte) (at int, ok bool) {
	names, last, top := "", -1, -maxLead // top is the last line of a frame
	for i := 0; i <= maxLead && len(head) > 0; i++ {
		var line []byte
		line, head, _ = bytes.Cut(head, []byte("\n"))
		text := boxes.Replace(strings.TrimSuffix(string(line), "\r"))
		framed := frame.MatchString(text)
		titled := strings.Count(text, "+") > len(split(names))+1 && framed // of AWS
		if !titled && (rule.MatchString(text) || framed && strings.Contains(text, "=")) && last >= 0 && (strings.Contains(names, "|") ||
			strings.Contains(text, "+") && len(split(names)) == len(strings.Split(text, "+"))) {
			return last, true
		}
		if framed {
			top = i
		} else if i != top+2 { // where DuckDB has the types
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
	under := ""
	for !frame.MatchString(under) && !rule.MatchString(under) {
		if under, err = r.line(); err != nil {
			return err
		}
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

// maxLines is how many lines a cell of psql or mysql may have.
const maxLines = 1_000

// between returns the cells of the row that begins with a line. If a cell has several lines, psql
// writes "+" behind each but the last, and mysql nothing.
func (r *Rows) between(line string) []string {
	framed := len(r.Starts) > 0 && r.Starts[0] == 0
	for n := 0; n < maxLines && framed && !strings.HasSuffix(strings.TrimSpace(line), "|"); n++ {
		next, err := r.line()
		if err != nil {
			break
		}
		if frame.MatchString(next) {
			r.ahead = append([]string{next}, r.ahead...)
			break
		}
		line += "\n" + next
	}
	cells, open := r.atBars(line, framed)
	for n := 0; n < maxLines && len(open) > 0; n++ {
		next, err := r.line()
		if err != nil {
			break
		}
		more, still := r.atBars(next, framed)
		for _, i := range open {
			if i < len(more) {
				cells[i] += "\n" + more[i]
			}
		}
		open = still
	}
	return cells
}

// atBars returns the cells of a line between the places of "+" in the rule, and those that go on in
// the next line of psql. A line without bars there is split at all of its bars.
func (r *Rows) atBars(line string, framed bool) (cells []string, open []int) {
	text, last, from := grid(line, true), len(r.Starts)-1, 0
	for i, at := range r.Starts {
		part := text[min(from, len(text)):]
		if framed || i < last {
			if at >= len(text) || text[at] != '|' {
				return split(line), nil
			}
			part = text[from:at]
		}
		cell := inGrid(part)
		if n := len(part); !framed && n == at-from && n > 0 && part[n-1] == '+' {
			open, cell = append(open, i), strings.TrimRight(cell[:len(cell)-1], " ")
		}
		cells, from = append(cells, cell), at+1
	}
	switch {
	case last < 0:
		return split(line), nil
	case framed:
		return cells[1:], nil
	}
	return cells, open
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

package describe

import (
	"bytes"
	"regexp"
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

// ruled reads the names of a table with "|" between the cells.
func (r *Rows) ruled() error {
	names, err := r.line()
	if err != nil {
		return err
	}
	r.columns = split(names)
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
			cells := split(text)
			return cells[:min(len(cells), len(r.columns))], nil
		}
	}
	return nil
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

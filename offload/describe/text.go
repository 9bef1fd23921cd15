package describe

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
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
				return nil, io.EOF
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

// gap matches what separates the columns of an aligned table.
var gap = regexp.MustCompile(`\s{2,}|\t+`)

// aligned reads the names of a table as kubectl and docker print it. It ends at an empty line.
func (r *Rows) aligned() error {
	names, err := r.line()
	for err == nil && strings.TrimSpace(names) == "" {
		names, err = r.line()
	}
	if err != nil {
		return err
	}
	if r.columns = gap.Split(strings.TrimSpace(names), -1); len(r.columns) < 2 {
		return NoTable("no columns were found in the text")
	}
	starts, rows, odd := startsOf(names, r.columns), 0, 0
	r.next = func() ([]string, error) {
		text, err := r.line()
		switch {
		case err != nil && (err != io.EOF || rows > odd):
			return nil, err
		case rows == odd && (err != nil || strings.TrimSpace(text) == ""):
			return nil, NoTable("no rows were found below the first line")
		case strings.TrimSpace(text) == "":
			return nil, io.EOF
		}
		cells, fits := cut(text, starts)
		if !fits {
			if cells = gap.Split(strings.TrimSpace(text), -1); len(cells) != len(r.columns) {
				odd++
				cells = []string{strings.TrimSpace(text)}
			}
		}
		if rows++; odd > 2 && odd*5 > rows {
			return nil, NoTable("its lines do not have the columns of the first line")
		}
		return cells, nil
	}
	return nil
}

// startsOf returns the characters at which the names of the columns begin.
func startsOf(line string, names []string) (starts []int) {
	at := 0
	for _, name := range names {
		before, after, _ := strings.Cut(line, name)
		at += utf8.RuneCountInString(before)
		starts = append(starts, at)
		at += utf8.RuneCountInString(name)
		line = after
	}
	return starts
}

// cut returns the cells of a line that begin at starts. ok is false if a cell crosses a start.
func cut(line string, starts []int) (cells []string, ok bool) {
	runes := []rune(line)
	for i, start := range starts {
		end := len(runes)
		if i+1 < len(starts) {
			end = min(starts[i+1], end)
		}
		if start > 0 && start < len(runes) && runes[start-1] != ' ' && runes[start-1] != '\t' {
			return nil, false
		}
		cells = append(cells, strings.TrimSpace(string(runes[min(start, end):end])))
	}
	return cells, true
}

// certain reports whether a text begins with an aligned table: one with names in capitals, below
// which the cells begin.
func certain(head []byte) bool {
	first, rest, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	names := gap.Split(strings.TrimSpace(string(first)), -1)
	if len(names) < 2 || len(bytes.TrimSpace(rest)) == 0 || strings.ToUpper(string(first)) != string(first) || strings.ContainsAny(string(first), "=:,;{}") {
		return false
	}
	starts := startsOf(string(first), names)
	return !slices.ContainsFunc(strings.Split(strings.TrimSpace(string(rest)), "\n"), func(line string) bool {
		_, fits := cut(line, starts)
		return !fits
	})
}

package tables

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxLead is how many lines may precede a table with separators.
const maxLead = 50

// rule matches the line under the names of a table in Markdown, psql and mysql.
var rule = regexp.MustCompile(`^\s*[|+:]?[-:+| ]*-{2,}[-:+| ]*$`)

// frame matches the lines around and between the rows of a table of mysql.
var frame = regexp.MustCompile(`^\s*\+[-+=]+\+\s*$`)

// text reads the first table in a text: one with "|" between the cells and a rule under the names,
// or one whose cells begin below the names of their columns, at least two spaces apart.
func (l *layout) text(src io.Reader, yield func([]cell) error) error {
	in := bufio.NewReaderSize(src, 256<<10)
	head, err := in.Peek(64 << 10)
	if err != nil && err != io.EOF {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRow)
	next := func() (string, bool) {
		ok := lines.Scan()
		return strings.TrimSuffix(lines.Text(), "\r"), ok
	}
	at, ruled := findRule(head)
	comma := separator(head)
	switch {
	case ruled:
		for range at {
			next()
		}
		err = l.piped(next, yield)
	case comma != 0:
		return l.cells(in, comma, yield)
	default:
		err = l.aligned(next, yield)
	}
	if err == nil {
		err = lines.Err()
	}
	if err == bufio.ErrTooLong {
		return noTable("a line is too long")
	}
	return err
}

// sniffRows is how many rows decide what separates the cells of a text.
const sniffRows = 20

// separator returns what separates the cells of a text that begins with head, if all of its first
// rows have as many cells as the names.
func separator(head []byte) rune {
	for _, comma := range []rune{'\t', ';', ',', '|'} {
		r := csv.NewReader(bytes.NewReader(head))
		r.Comma, r.ReuseRecord = comma, true
		names, err := r.Read()
		cells, rows := len(names), 0
		for err == nil && rows < sniffRows {
			if _, err = r.Read(); err == nil {
				rows++
			}
		}
		if cells > 1 && rows > 0 && (err == nil || err == io.EOF) {
			return comma
		}
	}
	return 0
}

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

// piped reads the rows of a table with "|" between the cells.
func (l *layout) piped(next func() (string, bool), yield func([]cell) error) error {
	names, _ := next()
	l.header(split(names))
	for {
		text, ok := next()
		switch {
		case ok && (frame.MatchString(text) || rule.MatchString(text)):
			continue
		case !ok || !strings.Contains(text, "|") && len(l.names) > 1 || strings.TrimSpace(text) == "":
			return nil
		case len(l.names) == 1 && strings.HasPrefix(strings.TrimSpace(text), "("): // "(2 rows)" of psql
			return nil
		}
		if err := yield(words(split(text), len(l.names))); err != nil {
			return err
		}
	}
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

// words returns n cells.
func words(texts []string, n int) []cell {
	row := make([]cell, min(n, len(texts)))
	for i := range row {
		row[i] = cell{word, texts[i]}
	}
	return row
}

// gap matches what separates the columns of an aligned table.
var gap = regexp.MustCompile(`\s{2,}|\t+`)

// aligned reads a table as kubectl and docker print it. It ends at an empty line.
func (l *layout) aligned(next func() (string, bool), yield func([]cell) error) error {
	names, ok := next()
	for ok && strings.TrimSpace(names) == "" {
		names, ok = next()
	}
	header := gap.Split(strings.TrimSpace(names), -1)
	switch {
	case len(header) < 2:
		return noTable("no columns were found in the text")
	case len(header) > maxColumns:
		return tooWide()
	}
	starts := startsOf(names, header)
	l.header(header)
	rows, odd := 0, 0
	for {
		text, ok := next()
		if !ok || strings.TrimSpace(text) == "" {
			break
		}
		texts, fits := cut(text, starts)
		if !fits {
			texts = gap.Split(strings.TrimSpace(text), -1)
			if len(texts) != len(header) {
				odd++
				texts = []string{strings.TrimSpace(text)}
			}
		}
		if rows++; odd > 2 && odd*5 > rows {
			return noTable("its lines do not have the columns of the first line")
		}
		if err := yield(words(texts, len(header))); err != nil {
			return err
		}
	}
	if rows == 0 || odd == rows {
		return noTable("no rows were found below the first line")
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

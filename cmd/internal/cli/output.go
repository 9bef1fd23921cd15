package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Table is a list in the format of all commands: titles in upper case, one line per
// row, no control characters.
type Table struct {
	rows [][]string // the first one has the titles
}

// NewTable returns an empty table with these columns.
func NewTable(columns ...string) *Table {
	t := &Table{rows: [][]string{nil}}
	for _, c := range columns {
		t.rows[0] = append(t.rows[0], strings.ToUpper(c))
	}
	return t
}

// NoBreak is a space at which no cell is cut.
const NoBreak = "\u00a0"

// Row adds a row. It formats times with Time.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.rows[0]))
	for i, c := range cells {
		if at, ok := c.(time.Time); ok {
			c = strings.ReplaceAll(Time(at), " ", NoBreak) // part of a time misleads
		}
		row[i] = tools.OneLine(fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

// Print prints the table, or empty if it has no rows. On a terminal, it fits the width.
func (t *Table) Print(out io.Writer, empty string) error {
	if len(t.rows) == 1 {
		_, err := fmt.Fprintln(out, empty)
		return err
	}
	rows, hidden := t.rows, []string(nil)
	if width := widthOf(out); width > 0 {
		rows, hidden = fit(rows, width)
	}
	var lines []string
	widths := widthsOf(rows)
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(text.Pad(strings.ReplaceAll(c, NoBreak, " "), widths[i]+columnGap, ' '))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	if len(hidden) > 0 {
		lines = append(lines, fmt.Sprintf("(%s: --wide shows all columns)", strings.ToLower(strings.Join(hidden, ", "))))
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// Line prints a line. A name in it cannot begin another line.
func Line(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, tools.EscapeLine(fmt.Sprintf(format, args...)))
	return err
}

// Indent indents all lines of a text of others, so that none looks like a line of ours.
func Indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// Time formats a time for lists: local time with its offset.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05 -0700")
}

// JSON writes v as one line of JSON, in which characters that no terminal should interpret are
// escapes.
func JSON(w io.Writer, v any) error {
	data, err := bus.Encode(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, tools.EscapeJSON(string(data))+"\n")
	return err
}

// JSONLines writes each item as one line of JSON.
func JSONLines[T any](w io.Writer, items []T) error {
	for _, item := range items {
		if err := JSON(w, item); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Table is a list in the format of all commands: titles in upper case, one line per
// row, no control characters.
type Table struct {
	writer table.Writer
	rows   int
}

// NewTable returns an empty table with these columns.
func NewTable(columns ...string) *Table {
	t := &Table{writer: table.NewWriter()}
	t.writer.SetStyle(plain)
	header := make(table.Row, len(columns))
	for i, c := range columns {
		header[i] = strings.ToUpper(c)
	}
	t.writer.AppendHeader(header)
	return t
}

// plain has no borders, so that scripts can parse the output.
var plain = func() table.Style {
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	return s
}()

// Row adds a row. It formats times with Time.
func (t *Table) Row(cells ...any) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		if at, ok := c.(time.Time); ok {
			c = Time(at)
		}
		row[i] = tools.OneLine(fmt.Sprint(c))
	}
	t.writer.AppendRow(row)
	t.rows++
}

// Print prints the table, or empty if it has no rows.
func (t *Table) Print(out io.Writer, empty string) error {
	text := empty
	if t.rows > 0 {
		lines := strings.Split(t.writer.Render(), "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		text = strings.Join(lines, "\n")
	}
	_, err := fmt.Fprintln(out, text)
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

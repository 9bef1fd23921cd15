package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Table is a list as all commands print it: columns under titles in upper case,
// one line for each row, no control characters.
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

// plain has no lines, so that what it prints can be cut and searched.
var plain = func() table.Style {
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "  "
	return s
}()

// Row adds a row. Times are shown as Time has it.
func (t *Table) Row(cells ...any) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		if at, ok := c.(time.Time); ok {
			c = Time(at)
		}
		row[i] = OneLine(fmt.Sprint(c))
	}
	t.writer.AppendRow(row)
	t.rows++
}

// Print prints the table, or what to say if it has no row.
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

// Time is a time as lists show it: in the zone of the reader, with its offset.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05 -0700")
}

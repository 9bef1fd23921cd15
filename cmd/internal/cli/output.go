package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/mattn/go-isatty"

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

// Time formats a time for lists: local time with its offset.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05 -0700")
}

// JSON writes v as one line of JSON.
func JSON(w io.Writer, v any) error {
	data, err := bus.Encode(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
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

// Printable returns a text for w. If w is a terminal, it escapes control characters,
// which could take the terminal over.
func Printable(w io.Writer, text string) string {
	if !IsTerminal(w) {
		return text
	}
	return tools.Escape(text)
}

// Dim returns a text in the faint style, if w is a terminal that shows styles.
func Dim(w io.Writer, text string) string {
	if !IsTerminal(w) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	if p, ok := w.(promptWriter); ok {
		w = p.Writer
	}
	if o, ok := w.(*pipeWriter); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

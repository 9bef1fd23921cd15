package tables

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/tools"
)

// maxRow is the size in bytes of the longest row.
const maxRow = describe.MaxRow

// layout is what the first pass over a content finds.
type layout struct {
	columns
	path   string           // of the array that is the table
	others []describe.Place // that are not the table
	notes  []string         // about the rows
	words  bool             // a text may be a number, as in XML
	// repeated counts the values of JSON that follow one with the same name.
	repeated int
}

// rows calls yield with the cells of each row of a content. It adds the columns to l, whose path
// says which array of a JSON document to read.
func (l *layout) rows(t Table, src io.Reader, yield func([]cell) error) error {
	switch t.Format {
	case FormatTable:
		return l.table(t.Form, src, yield)
	case FormatLog:
		values := jq.NewLogValues(src)
		err := l.json(values, yield)
		l.notes = append(l.notes, values.Note())
		return err
	}
	return l.json(src, yield)
}

// find sets the path of the rows of a JSON text.
func (l *layout) find(t Table, src io.Reader) error {
	l.path = cleanPath(t.Path)
	if t.Format == FormatLog { // lines of text may be around one document
		return l.findJSON(jq.NewLogValues(src), true)
	}
	return l.findJSON(src, false)
}

// look reads a content for its columns.
func (l *layout) look(t Table, src io.Reader) error {
	err := l.rows(t, src, func(row []cell) error { l.see(row); return nil })
	switch {
	case err != nil:
		return err
	case l.tooMany:
		return noTable(fmt.Sprintf("it has more than %d columns", maxColumns))
	case len(l.names) == 0 && t.Path != "" && len(l.others) > 0:
		return noTable(fmt.Sprintf("there are no rows at %s; the document has %s, which artifacts: [%q] selects",
			t.Path, tools.Excerpt(describe.List(l.others), 300), t.ID+":"+l.others[0].Path))
	case len(l.names) == 0:
		return noTable("it has no rows")
	}
	return nil
}

// cleanPath returns a path as a model writes it in the form of step.
func cleanPath(path string) string {
	path = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(path), "$"), "[]")
	path = strings.ReplaceAll(path, ".[", "[") // jq writes .["a b"]
	if path != "" && path[0] != '.' && path[0] != '[' {
		path = "." + path
	}
	return path
}

// table reads a table that has a form.
func (l *layout) table(form describe.Form, src io.Reader, yield func([]cell) error) error {
	rows, err := form.Rows(src)
	if err == io.EOF {
		return noTable("it is empty")
	}
	if err != nil {
		return err
	}
	l.names = nil
	for _, name := range rows.Columns() {
		l.add(name)
	}
	l.semicolons = form.Comma == ';'
	row, blank := []cell{}, 0
	for {
		record, err := rows.Next()
		if err == io.EOF {
			if l.notes = rows.Notes(); blank > 0 {
				l.notes = append(l.notes, fmt.Sprintf("%d rows have only empty cells", blank))
			}
			return nil
		}
		if err != nil {
			return err
		}
		row = row[:0]
		for _, text := range record {
			row = append(row, cell{word, text})
		}
		if !slices.ContainsFunc(record, func(text string) bool { return text != "" }) {
			blank++
		}
		l.widen(len(row))
		if err := yield(row[:min(len(row), maxColumns)]); err != nil {
			return err
		}
	}
}

// widen adds columns without names for a row of n cells.
func (l *layout) widen(n int) {
	for len(l.names) < n {
		if _, ok := l.add(""); !ok {
			return
		}
	}
}

func noTable(why string) error { return describe.NoTable(why) }

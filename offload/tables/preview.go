package tables

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	previewRows  = 3
	previewRow   = 150 // characters of a row
	previewNames = 700 // of the columns
)

// Preview describes the columns of a table by the start of its content, with the first rows, or
// returns "" if that is not a table. complete is true if the start is all.
func Preview(head []byte, complete bool, form describe.Form) string {
	if !complete {
		head = form.WholeLines(head)
	}
	l, rows := &layout{}, ""
	n := 0
	err := l.rows(Table{Format: FormatTable, Form: form}, bytes.NewReader(head), func(row []cell) error {
		if l.see(row); n < previewRows {
			cells := make([]string, len(row))
			for i, c := range row {
				cells[i] = c.text
			}
			rows += "\n" + tools.Excerpt(line(cells), previewRow)
		}
		n++
		return nil
	})
	if err != nil || n == 0 || l.tooMany {
		return ""
	}
	var names []string
	for _, c := range l.typed() {
		if c.texts {
			continue
		}
		name := columnName(c.Name) + " " + c.Type
		switch {
		case c.Read != "":
			name += " (" + c.Read + ")"
		case c.Misfits > 0 && c.Type != "TEXT":
			name += fmt.Sprintf(" (NULL for %s)", strings.Join(c.Examples, ", "))
		}
		names = append(names, name)
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s%d columns (types of the first rows): %s", PreviewStart, len(names), tools.Excerpt(strings.Join(names, ", "), previewNames)))
	for _, note := range form.Assumed {
		text.WriteString("; " + note)
	}
	return text.String() + rows
}

// PreviewStart is how each Preview begins.
const PreviewStart = "a table with "

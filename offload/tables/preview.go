package tables

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
)

// Preview describes the columns of a table by the start of its content, or returns "" if that is
// not a table. complete is true if the start is all.
func Preview(head []byte, complete bool, form describe.Form) string {
	if !complete {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	l := &layout{}
	if err := l.look(Table{Format: FormatTable, Form: form}, bytes.NewReader(head)); err != nil {
		return ""
	}
	all := l.typed()
	all = slices.DeleteFunc(all, func(c Column) bool { return c.texts })
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = columnName(c.Name) + " " + c.Type
	}
	return fmt.Sprintf("%s%d columns (types of the first rows): %s", PreviewStart, len(all), strings.Join(names, ", "))
}

// PreviewStart is how each Preview begins.
const PreviewStart = "a table with "

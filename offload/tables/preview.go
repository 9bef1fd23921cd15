package tables

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Preview describes the columns of a table by the start of its content, or returns "" if that is
// not a table. complete is true if the start is all. Of a FormatText, it knows only the tables that
// are unlikely to be something else: those with a rule, and those with names in capitals.
func Preview(head []byte, complete bool, format string, comma rune) string {
	if !complete {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	if format == FormatText && !certain(head) {
		return ""
	}
	l := &layout{}
	if err := l.find(Table{Format: format, Comma: comma}, bytes.NewReader(head)); err != nil {
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

// certain reports whether a text begins with a table.
func certain(head []byte) bool {
	if _, ruled := findRule(head); ruled {
		return true
	}
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

package tables

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// maxColumns is how many columns a table may have. SQLite allows 2,000.
const maxColumns = 1_000

// kind is what a cell is in its source.
type kind byte

const (
	missing kind = iota // or null
	word                // text of a table, which may mean a number
	quoted              // a JSON string
	number              // a JSON number
	boolean
	nested // a JSON array or object
)

type cell struct {
	kind kind
	text string
}

// Column is a column of a table.
type Column struct {
	Name string `json:"name"`
	// Type is INTEGER, REAL, TEXT, BOOLEAN (1 and 0), or JSON (text for json_extract and ->>).
	Type string `json:"type"`
}

// columns are the columns of a table that is being read, and what was seen in them.
type columns struct {
	names []string // in the source
	index map[string]int
	seen  []traits
	// tooMany is true if a column was left out.
	tooMany bool
}

// traits are what the cells of a column were.
type traits struct{ integer, real, text, boolean, nested bool }

// place returns the number of the column with a name, which is added if it is new. ok is false if
// there are too many.
func (c *columns) place(name string) (i int, ok bool) {
	if i, ok = c.index[name]; ok {
		return i, true
	}
	if c.index == nil {
		c.index = map[string]int{}
	}
	if i, ok = c.add(name); ok {
		c.index[name] = i
	}
	return i, ok
}

// add adds a column. Names may be equal.
func (c *columns) add(name string) (i int, ok bool) {
	if len(c.names) == maxColumns {
		c.tooMany = true
		return 0, false
	}
	c.names = append(c.names, strings.Clone(name))
	return len(c.names) - 1, true
}

// see notes what the cells of a row are.
func (c *columns) see(row []cell) {
	for len(c.seen) < len(row) {
		c.seen = append(c.seen, traits{})
	}
	for i, cell := range row {
		c.seen[i].see(cell)
	}
}

func (t *traits) see(c cell) {
	switch c.kind {
	case boolean:
		t.boolean = true
	case nested:
		t.nested = true
	case word, quoted, number:
		switch {
		case t.text || c.kind == word && c.text == "":
		case isInteger(c.text):
			t.integer = true
		case c.kind != quoted && isReal(c.text):
			t.real = true
		default:
			t.text = true
		}
	}
}

// isInteger reports whether a text is how a 64-bit integer is printed: "007" is text.
func isInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 19 || digits[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	if len(digits) < 19 {
		return true
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

var realForm = regexp.MustCompile(`^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?$`)

func isReal(s string) bool {
	if len(s) > 40 || !realForm.MatchString(s) {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// typ returns the type of a column.
func (t traits) typ() string {
	switch t {
	case traits{integer: true}, traits{integer: true, boolean: true}:
		return "INTEGER"
	case traits{real: true}, traits{real: true, integer: true}, traits{real: true, boolean: true}, traits{real: true, integer: true, boolean: true}:
		return "REAL"
	case traits{boolean: true}:
		return "BOOLEAN"
	case traits{nested: true}:
		return "JSON"
	}
	return "TEXT"
}

// typed returns the columns with types and unique names. SQLite's names ignore the case of ASCII.
func (c *columns) typed() []Column {
	used := map[string]bool{}
	all := make([]Column, len(c.names))
	for i, name := range c.names {
		name = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimSpace(name), "\x00", ""), "\uFFFD")
		if name == "" {
			name = fmt.Sprintf("c%d", i+1)
		}
		name = tools.Excerpt(name, 100)
		unique := name
		for n := 2; used[strings.ToLower(unique)]; n++ {
			unique = fmt.Sprintf("%s_%d", name, n)
		}
		used[strings.ToLower(unique)] = true
		all[i] = Column{Name: unique, Type: "TEXT"}
		if i < len(c.seen) {
			all[i].Type = c.seen[i].typ()
		}
	}
	return all
}

// value returns a cell as SQLite stores it in a column of a type.
func (c cell) value(typ string) any {
	switch {
	case c.kind == missing:
		return nil
	case typ == "TEXT", typ == "JSON":
		return c.text
	case c.kind == boolean:
		if c.text == "true" {
			return int64(1)
		}
		return int64(0)
	case c.text == "":
		return nil
	case typ == "INTEGER":
		if n, err := strconv.ParseInt(c.text, 10, 64); err == nil {
			return n
		}
	case typ == "REAL":
		if f, err := strconv.ParseFloat(c.text, 64); err == nil {
			return f
		}
	}
	return c.text
}

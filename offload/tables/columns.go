package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
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
	// Misfits counts the cells that are no numbers in a column of numbers. They are NULL, and the
	// column Texts has their text. Of a column of text, Misfits counts the cells that look like
	// numbers or dates in a form that SQL does not know.
	Misfits  int64    `json:"misfits,omitempty"`
	Examples []string `json:"examples,omitempty"` // of Misfits
	Texts    string   `json:"texts,omitempty"`

	source int  // the number of the cell in a row
	texts  bool // has the texts of Misfits
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
type traits struct {
	integer, real, boolean, nested bool
	// code is true if a cell has only digits and is no number, such as 007.
	code    bool
	numbers int64
	missing group // markers such as N/A
	others  group
	odd     group // those of others that look like numbers or dates
}

// group counts cells, and has up to two different ones as examples.
type group struct {
	n        int64
	examples []string
}

func (g *group) add(text string) {
	g.n++
	if len(g.examples) < 2 && !slices.Contains(g.examples, text) {
		g.examples = append(g.examples, tools.Excerpt(strings.Clone(text), 40))
	}
}

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
		return
	case nested:
		t.nested = true
		return
	case missing:
		return
	}
	switch text := c.text; {
	case c.kind == word && text == "":
	case describe.IsInteger(text):
		t.integer = true
		t.numbers++
	case c.kind != quoted && describe.IsReal(text):
		t.real = true
		t.numbers++
	case c.kind == word && describe.IsBoolean(text):
		t.boolean = true
	case describe.IsMarker(text):
		t.missing.add(text)
	default:
		t.code = t.code || onlyDigits(strings.TrimPrefix(text, "-"))
		t.others.add(text)
		if describe.IsOdd(text) {
			t.odd.add(text)
		}
	}
}

func onlyDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// maxOthers is how many per cent of the cells of a column of numbers may be neither numbers nor
// markers.
const maxOthers = 5

// typ returns the type of a column, by all of its cells.
func (t traits) typ() string {
	few := t.numbers > 0 && t.others.n*100 <= (t.numbers+t.others.n)*maxOthers
	switch {
	case t.nested && !t.boolean && t.numbers+t.others.n+t.missing.n == 0:
		return "JSON"
	case t.nested, t.code:
		return "TEXT"
	case few && t.real:
		return "REAL"
	case few:
		return "INTEGER"
	case t.boolean && t.others.n+t.missing.n == 0:
		return "BOOLEAN"
	}
	return "TEXT"
}

// misfits returns the cells that the type of the column does not hold as they are meant.
func (t traits) misfits(typ string) group {
	switch {
	case typ == "INTEGER" || typ == "REAL":
		all := group{t.missing.n + t.others.n, slices.Concat(t.others.examples, t.missing.examples)}
		all.examples = all.examples[:min(len(all.examples), 2)]
		return all
	case typ == "TEXT" && t.odd.n*2 > t.others.n:
		return t.odd
	}
	return group{}
}

// typed returns the columns with types and unique names, and behind them one with the texts of each
// column of numbers that has others. SQLite's names ignore the case of ASCII.
func (c *columns) typed() []Column {
	used := map[string]bool{}
	unique := func(name string) string {
		free := name
		for n := 2; used[strings.ToLower(free)]; n++ {
			free = fmt.Sprintf("%s_%d", name, n)
		}
		used[strings.ToLower(free)] = true
		return free
	}
	all := make([]Column, len(c.names))
	for i, name := range c.names {
		name = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimSpace(name), "\x00", ""), "\uFFFD")
		if name == "" {
			name = fmt.Sprintf("c%d", i+1)
		}
		all[i] = Column{Name: unique(tools.Excerpt(name, 100)), Type: "TEXT", source: i}
		if i < len(c.seen) {
			all[i].Type = c.seen[i].typ()
			odd := c.seen[i].misfits(all[i].Type)
			all[i].Misfits, all[i].Examples = odd.n, odd.examples
		}
	}
	for i := range c.names {
		if col := &all[i]; col.Misfits > 0 && col.Type != "TEXT" {
			col.Texts = unique(col.Name + "_text")
			all = append(all, Column{Name: col.Texts, Type: "TEXT", source: i, texts: true})
		}
	}
	return all
}

// value returns a cell as SQLite stores it in a column.
func (c cell) value(col Column) any {
	if !col.texts {
		return c.as(col.Type)
	}
	if c.kind == missing || c.text == "" || c.as("REAL") != nil {
		return nil
	}
	return c.text
}

// as returns a cell as a type, or nil if it is missing or does not fit.
func (c cell) as(typ string) any {
	switch {
	case c.kind == missing:
		return nil
	case typ == "TEXT", typ == "JSON":
		return c.text
	case c.kind == boolean, c.kind == word && describe.IsBoolean(c.text):
		if strings.EqualFold(c.text, "true") {
			return int64(1)
		}
		return int64(0)
	case describe.IsInteger(c.text):
		n, _ := strconv.ParseInt(c.text, 10, 64) // IsInteger checked it
		if typ == "REAL" {
			return float64(n)
		}
		return n
	case typ == "REAL" && c.kind != quoted && describe.IsReal(c.text):
		f, _ := strconv.ParseFloat(c.text, 64) // IsReal checked it
		return f
	}
	return nil
}

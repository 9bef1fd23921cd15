package tables

import (
	"slices"
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
	// Type is INTEGER, REAL, TEXT, BOOLEAN (1 and 0), DATE (text as in ISO 8601), or JSON (text for
	// json_extract and ->>).
	Type string `json:"type"`
	// Read says how cells such as "1.234,50" are read, if that is not obvious. Stored is the text of a
	// cell, and how text functions see it, if that is another text.
	Read   string   `json:"read,omitempty"`
	Stored []string `json:"stored,omitempty"`
	Time   string   `json:"time,omitempty"` // an example, as it is stored
	Empty  int64    `json:"empty,omitempty"`
	// Marked counts the cells such as Marker, NULL or N/A, which say that a value is missing.
	Marked int64  `json:"marked,omitempty"`
	Marker string `json:"marker,omitempty"`
	// Misfits counts the cells that are not of the type. They are NULL, and the column Texts has
	// their text. Of a column of text, Misfits counts the cells that look like numbers or dates.
	Misfits  int64    `json:"misfits,omitempty"`
	Examples []string `json:"examples,omitempty"` // of Misfits
	Texts    string   `json:"texts,omitempty"`
	// Misordered are two texts with numbers, of which the first one is less by its characters and greater by its numbers.
	Misordered []string `json:"misordered,omitempty"`

	source int  // the number of the cell in a row
	texts  bool // has the texts of Misfits
	lossy  bool // the value does not tell the text, such as 3.10
	reading
}

// columns are the columns of a table that is being read, and what was seen in them.
type columns struct {
	names []string // in the source
	index map[string]int
	seen  []looks
	// semicolons is true if they are between the cells, as where commas precede decimals.
	semicolons bool
	// tooMany is true if a column was left out.
	tooMany bool
	// renamed says which columns have another name than in the source.
	renamed []string
}

// group counts cells that look alike, and has up to two different ones as examples.
type group struct {
	look
	n            int64
	examples     []string
	quoted, bare bool // in JSON
}

func (g *group) add(c cell) {
	text := c.text
	g.n++
	g.quoted, g.bare = g.quoted || c.kind == quoted, g.bare || c.kind == number
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
		c.seen = append(c.seen, looks{})
	}
	for i, cell := range row {
		c.seen[i].see(cell)
	}
}

// typed returns the columns with types and unique names, and behind them one with the texts of each
// column of numbers that has others.
func (c *columns) typed() []Column {
	names := describe.Names{}
	all := make([]Column, len(c.names))
	for i, name := range c.names {
		all[i] = Column{Name: names.Add(i, name), Type: "TEXT", source: i, reading: reading{typ: "TEXT"}}
		if i < len(c.seen) {
			if c.seen[i].decide(&all[i]); c.semicolons && all[i].Type == "REAL" && !all[i].comma && all[i].Read == "" {
				c.seen[i].points(&all[i])
			}
		}
	}
	for i := range c.names {
		if col := &all[i]; (col.Misfits > 0 || col.lossy) && col.Type != "TEXT" {
			col.Texts = names.Free(col.Name + "_text")
			all = append(all, Column{Name: col.Texts, Type: "TEXT", source: i, texts: true, lossy: col.lossy, reading: col.reading})
		}
	}
	c.renamed = names.Renamed
	return all
}

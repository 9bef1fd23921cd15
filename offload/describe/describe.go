// Package describe says how the table in a text is written, and what its cells are. All that reads
// tables asks this package: the media type, the preview, jq and SQL.
package describe

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Kinds of tables.
const (
	Cells   = "cells"   // a row is a line, with Form.Comma between the cells
	Ruled   = "ruled"   // "|" between the cells, and a rule under the names: Markdown, psql, mysql
	Aligned = "aligned" // cells begin below the names of their columns, as kubectl prints them
)

// SampleBytes is how much of a text decides its form.
const SampleBytes = 64 << 10

// Form is how the rows of a table are written.
type Form struct {
	Kind  string `json:"kind"`
	Comma rune   `json:"comma,omitempty"`
	// Quoted is true if a cell may be in double quotes. A quote opens a cell only if a quote before
	// a comma or the end of a line closes it.
	Quoted bool `json:"quoted,omitempty"`
	// Trusted is true if quotes are used as CSV has them: then a cell may go on in the next line,
	// also if each of the lines could be a row.
	Trusted bool `json:"trusted,omitempty"`
	// Escaped is true if a quote in a quoted cell is written as \".
	Escaped bool `json:"escaped,omitempty"`
	Spaced  bool `json:"spaced,omitempty"` // white space around a cell does not belong to it
	CR      bool `json:"cr,omitempty"`     // lines end in CR alone
	Hash    bool `json:"hash,omitempty"`   // lines that begin with "#" are no rows
	Skip    int  `json:"skip,omitempty"`   // lines above the table
	Boxed   bool `json:"boxed,omitempty"`  // the lines around cells are drawn
	// Names are those that a line such as "#Fields: date time" has. Otherwise the first row has them
	// if Header is true.
	Names  []string `json:"names,omitempty"`
	Header bool     `json:"header,omitempty"`
	// Unnamed is true if the first column has no name, and the first row one cell fewer than the others, as R writes them.
	Unnamed bool `json:"unnamed,omitempty"`
	Width   int  `json:"width,omitempty"` // cells of most rows
	// Starts are the characters at which the columns of an aligned table begin.
	Starts []int `json:"starts,omitempty"`
	Words  bool  `json:"words,omitempty"` // each cell of an aligned table but the last is a word
	Wide   bool  `json:"wide,omitempty"`  // characters of East Asia have the width of two
	// Certain is false if the text is a table only because a reader says so.
	Certain bool `json:"certain,omitempty"`
	// Assumed says what a reader may not expect.
	Assumed []string `json:"assumed,omitempty"`
}

// Hints are what a reader knows of a table.
type Hints struct {
	Comma  rune  // 0 if it is unknown
	Header *bool // nil if it is unknown
}

func (h Hints) String() string {
	if h.Header != nil {
		return fmt.Sprintf(" %c%t", h.Comma, *h.Header)
	}
	return fmt.Sprintf(" %c", h.Comma)
}

// Table returns the form of the table that begins with head. complete is true if head is the whole
// text. If nothing else fits, the form is Aligned and not certain.
func Table(head []byte, complete bool, known Hints) Form {
	head = jsonread.WithoutBOM(head)
	head = head[:min(len(head), SampleBytes)]
	f := Form{CR: bytes.IndexByte(head, '\n') < 0 && bytes.Count(head, []byte("\r")) > 1}
	if len(head) == SampleBytes || !complete {
		head, complete = f.WholeLines(head), false
	}
	if at, ruled := findRule(head); ruled && known == (Hints{}) {
		f.Kind, f.Skip, f.Header, f.Certain, f.Boxed = Ruled, at, true, true, bytes.ContainsAny(head[:min(len(head), 1<<10)], "├┼╪╡┡")
		return f
	}
	if f.fields(head) || f.cells(head, complete, known) {
		return f
	}
	f = Form{}
	filled := f.aligned(head)
	if wide := (Form{Wide: true}); bytes.ContainsFunc(head[:min(len(head), 8<<10)], isWide) && wide.aligned(head) > filled {
		return wide
	}
	return f
}

func (f Form) end() byte {
	if f.CR {
		return '\r'
	}
	return '\n'
}

// WholeLines returns the lines of the start of a text that are not cut.
func (f Form) WholeLines(head []byte) []byte { return head[:bytes.LastIndexByte(head, f.end())+1] }

// fieldsLine matches the names of the columns of W3C logs and of Zeek.
var fieldsLine = lazyregexp.New(`(?i)^#fields(:[ \t]*|\t)(.+?)[ \t\r]*$`)

// fields reports whether a line such as "#Fields: date time" (W3C) or "#fields\tts\tuid" (Zeek)
// names the columns.
func (f *Form) fields(head []byte) bool {
	for line := range bytes.SplitSeq(head, []byte{f.end()}) {
		if !bytes.HasPrefix(line, []byte("#")) {
			return false
		}
		m := fieldsLine.FindSubmatch(line)
		if m == nil {
			continue
		}
		f.Kind, f.Hash, f.Certain, f.Comma, f.Names = Cells, true, true, '\t', strings.Split(string(m[2]), "\t")
		if m[1][0] == ':' {
			f.Comma, f.Quoted, f.Names = ' ', true, strings.Fields(string(m[2]))
		}
		f.Width = len(f.Names)
		return true
	}
	return false
}

// commas are what separates cells, the rarest in texts first.
var commas = []rune{'\t', ';', '|', ','}

// logged matches a time such as 2025-01-31 10:00:00,123 in a log, as programs in Python print it.
var logged = lazyregexp.New(`(?m)^[^,\n]{0,40}:\d\d,\d{3}[^\d,]`)

// sepLine matches the first line with which Excel is told the comma.
var sepLine = lazyregexp.New(`(?i)^sep=(.)(?:\r?\n|\r)`)

// cells finds the comma between the cells of rows.
func (f *Form) cells(head []byte, complete bool, known Hints) bool {
	start := *f
	if m := sepLine.FindSubmatchIndex(head); m != nil {
		known.Comma, start.Skip, head = rune(head[m[2]]), 1, head[m[1]:]
	}
	best, most := sample{}, 0
	candidates := commas
	if known.Comma != 0 {
		candidates = []rune{known.Comma}
	}
	for _, comma := range candidates {
		s := newSample(start, comma, head, complete)
		if fits := s.fits(); fits > most || fits == most && fits > 0 && s.titles < best.titles { // a title may be the names, with another comma
			if comma == ',' && known.Comma == 0 && len(logged.FindAllIndex(head, -1))*2 > bytes.Count(head, []byte("\n")) {
				continue
			}
			best, most = s, fits
		}
	}
	if most == 0 {
		if known.Comma == 0 || bytes.ContainsRune(head, known.Comma) {
			return false
		}
		if best = oneColumn(start, known.Comma, head, complete); best.fit == 0 {
			return false
		}
	}
	if best.header(); known.Header != nil {
		best.Header, best.Assumed = *known.Header, nil
	}
	if best.Unnamed = best.Unnamed && best.Header; best.Unnamed { // also if the reader says that there are names
		best.Assumed = append(best.Assumed, "the first row has one cell fewer than the others, so the names were taken for those from the second column on")
	}
	best.Certain = best.certain()
	*f = best.Form
	return best.Certain || known != (Hints{}) || !best.text()
}

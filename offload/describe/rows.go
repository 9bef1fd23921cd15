package describe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
)

// MaxRow is the size in bytes of the longest row.
const MaxRow = 16 << 20

var errTooLong = NoTable(fmt.Sprintf("a row has more than %d bytes", MaxRow))

// Rows reads the rows of a table.
type Rows struct {
	// Short and Long count the rows with fewer and with more cells than Form.Width.
	Short, Long int64
	// Crossed counts the rows of an aligned table whose cells are not below the names of the columns,
	// and that are split at spaces.
	Crossed int64
	// Blank counts the empty lines between rows of cells, and Again the rows that have the names of the columns again.
	Blank, Again int64
	// Moved counts the rows behind another line with names, and Dropped has its names that are no columns.
	Moved   int64
	Dropped []string
	// More is true if other lines, which may be another table, follow one that is ruled or aligned.
	More bool

	Form
	in      *bufio.Reader
	ahead   []string // lines that were read and are next
	first   []string // the first row, if it has no names
	cut     bool     // the text ends before the table does
	lines   int      // that were read
	start   int      // the lines before the last record
	total   int      // rows of an aligned table
	odd     int      // those that do not fit
	failed  int      // bytes that were searched for the end of a cell in vain
	useful  bool     // quotes were needed: a cell has a comma, a quote or the end of a line
	strays  bool     // a cell begins with a quote that nothing closes
	cells   []string
	next    func() ([]string, error)
	columns []string
	places  []int // of the cells in a row, behind another line with names
}

// Rows returns the rows of a text that has the form f.
func (f Form) Rows(src io.Reader) (*Rows, error) {
	r := f.reader(src)
	for range f.Skip {
		if _, err := r.line(); err != nil {
			return nil, err
		}
	}
	return r, r.open()
}

func (f Form) reader(src io.Reader) *Rows {
	r := &Rows{Form: f, in: bufio.NewReaderSize(src, 64<<10)}
	jsonread.SkipBOM(r.in)
	return r
}

// open reads the names of the columns.
func (r *Rows) open() (err error) {
	switch r.Kind {
	case Ruled:
		return r.ruled()
	case Aligned:
		if r.columns, r.next = r.Names, r.alignedRow; r.Width < 2 {
			return NoTable(`no columns were found in the text; delimiter=" " divides lines at spaces, and "," reads each line as one value`)
		}
		return nil
	}
	r.next = r.record
	if r.columns = r.Names; r.Names != nil {
		return nil
	}
	hash := r.Hash
	r.Hash = false // "#" may precede the first name
	if r.first, err = r.record(); err != nil {
		return err
	}
	r.Hash = hash
	if r.first = slices.Clone(r.first); r.Header {
		r.columns, r.first = r.first, nil
		if r.columns[0] = strings.TrimLeft(r.columns[0], "#"); r.Unnamed {
			r.columns = append([]string{""}, r.columns...)
		}
		return nil
	}
	r.columns = make([]string, len(r.first))
	return nil
}

// Columns returns the names of the columns. A column without a name has an empty one.
func (r *Rows) Columns() []string { return r.columns }

// Next returns the next row, or io.EOF. The cells are valid until the next call.
func (r *Rows) Next() (cells []string, err error) {
	if cells, r.first = r.first, nil; cells != nil {
		return cells, nil
	}
	if cells, err = r.next(); err == nil && r.Width > 0 {
		if slices.Equal(cells, r.columns) && cells[0] != "" {
			r.Again++
		}
		switch {
		case len(cells) < r.Width:
			r.Short++
		case len(cells) > r.Width:
			r.Long++
		}
	}
	return cells, err
}

// Notes say what a reader may not expect of the rows that were read.
func (r *Rows) Notes() (notes []string) {
	if r.More {
		notes = append(notes, "this is the first table of the text; other lines follow it, which grep_knowledge finds")
	}
	if len(r.Dropped) > 0 {
		notes = append(notes, fmt.Sprintf("a later line has other names; its columns %s are left out", strings.Join(r.Dropped, ", ")))
	}
	for _, kind := range []struct {
		rows int64
		note string
	}{
		{r.Short, "have fewer cells than the others; what they lack is NULL"},
		{r.Long, fmt.Sprintf("have more cells than the others, from column %d on", r.Width+1)},
		{r.Moved, "follow a line with the names in another order; the names say what their cells are"},
		{r.Again, "have the names of the columns again, as where several files are joined"},
		{r.Blank, "follow an empty line, and may be those of another table"},
		{r.Crossed, "have cells that are not below their names, and were split at spaces"},
	} {
		if kind.rows > 0 {
			notes = append(notes, fmt.Sprintf("%d rows %s", kind.rows, kind.note))
		}
	}
	return notes
}

// line returns the next line without its end.
func (r *Rows) line() (string, error) {
	r.lines++
	if len(r.ahead) > 0 {
		line := r.ahead[0]
		r.ahead = r.ahead[1:]
		return line, nil
	}
	part, err := r.in.ReadSlice(r.end())
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) {
		if long = append(long, part...); len(long) > MaxRow {
			return "", errTooLong
		}
		part, err = r.in.ReadSlice(r.end())
	}
	if long != nil {
		part = append(long, part...)
	}
	if err == io.EOF && len(part) > 0 {
		err = nil
	}
	line := strings.TrimSuffix(string(part), string(r.end()))
	if r.Boxed {
		line = boxes.Replace(line)
	}
	return strings.TrimRight(line, "\r"), err
}

// last reads what follows a table that ended at an empty line or other text.
func (r *Rows) last(mark string) error {
	text, err := r.line()
	for ; err == nil; text, err = r.line() {
		r.More = r.More || strings.Contains(text, mark) && strings.TrimSpace(text) != ""
	}
	return err
}

// record returns the next row of cells with commas between them.
func (r *Rows) record() ([]string, error) {
	line, err := r.line()
	for blank := int64(0); err == nil && (line == "" && r.Width != 1 || r.Hash && strings.HasPrefix(line, "#")); {
		if line == "" && len(r.cells) > 0 {
			blank = 1
		}
		if line != "" && r.Names != nil {
			r.rename(line)
		}
		if line, err = r.line(); err == nil && line != "" {
			r.Blank += blank
		}
	}
	if err != nil {
		return nil, err
	}
	r.cells, r.start = r.cells[:0], r.lines-1
	// Another file that follows the first one may have its own byte order mark.
	line = strings.TrimPrefix(line, jsonread.BOM)
	if r.Comma == ' ' { // numbers that are aligned on the right
		line = strings.TrimLeft(line, " ")
	}
	quotes := r.Quoted && strings.IndexByte(line, '"') >= 0
	for rest, more := line, true; more; {
		if quotes && strings.HasPrefix(r.trim(rest), `"`) {
			cell, after, hasMore, closed, err := r.quoted(r.trim(rest), line)
			if err != nil {
				return nil, err
			}
			if closed {
				r.cells, rest, more = append(r.cells, cell), after, hasMore
				continue
			}
			r.strays = true
		}
		cell := ""
		cell, rest, more = r.cell(rest)
		if r.Spaced {
			cell = strings.TrimSpace(cell)
		}
		if text, ok := strings.CutPrefix(cell, `="`); ok && strings.HasSuffix(text, `"`) { // ="007", as Excel keeps texts
			cell = text[:len(text)-1]
		}
		r.cells = append(r.cells, cell)
	}
	if r.places == nil {
		return r.cells, nil
	}
	r.Moved++
	row := make([]string, len(r.Names))
	for i, cell := range r.cells[:min(len(r.cells), len(r.places))] {
		if r.places[i] >= 0 {
			row[r.places[i]] = cell
		}
	}
	return row, nil
}

// rename reads a line such as "#Fields: time date", behind which the cells may have another order.
func (r *Rows) rename(line string) {
	f := r.Form
	if !f.fields([]byte(line)) {
		return
	}
	if r.places = nil; slices.Equal(f.Names, r.Names) {
		return
	}
	for _, name := range f.Names {
		at := slices.Index(r.Names, name)
		if r.places = append(r.places, at); at < 0 && !slices.Contains(r.Dropped, name) {
			r.Dropped = append(r.Dropped, name)
		}
	}
}

// cell returns the text before the next comma, and what follows it.
func (r *Rows) cell(text string) (cell, rest string, more bool) {
	if r.Comma == ' ' { // of W3C logs, in which several spaces may be one
		cell, rest, more = strings.Cut(text, " ")
		return cell, strings.TrimLeft(rest, " "), more
	}
	if r.Comma < 0x80 {
		if i := strings.IndexByte(text, byte(r.Comma)); i >= 0 {
			return text[:i], text[i+1:], true
		}
		return text, "", false
	}
	return strings.Cut(text, string(r.Comma))
}

func (r *Rows) trim(text string) string {
	if r.Spaced {
		return strings.TrimLeft(text, " \t")
	}
	return text
}

// maxFailed bounds the search for the ends of cells in vain.
const maxFailed = 64 << 20

// quoted returns the cell at the start of text, which begins with a quote. line is the line that text
// ends. closed is false if the cell is not in quotes.
func (r *Rows) quoted(text, line string) (cell, rest string, more, closed bool, err error) {
	at, state := r.closing(text, 1)
	if state == open {
		text, at, state, err = r.longer(text, line)
	}
	if err != nil || state != shut {
		return "", "", false, false, err
	}
	cell = text[1:at]
	if strings.IndexByte(cell, '"') >= 0 {
		r.useful = true
		if cell = strings.ReplaceAll(cell, `""`, `"`); r.Escaped {
			cell = escapes.Replace(cell)
		}
	}
	r.useful = r.useful || strings.ContainsRune(cell, r.Comma) || strings.IndexByte(cell, '\n') >= 0
	_, rest, more = r.cell(r.trim(text[at+1:]))
	return cell, rest, more, true, nil
}

var escapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// longer adds the next lines to a text with a quoted cell, up to the one that closes the cell at at.
func (r *Rows) longer(text, line string) (long string, at, state int, err error) {
	taken, size := []string{line}, len(text)
	var b strings.Builder
	b.WriteString(text)
	for state = open; state == open && r.failed < maxFailed; {
		next, err := r.line()
		if err == io.EOF && !r.cut {
			break
		}
		if err != nil {
			return "", 0, 0, err
		}
		if size += len(next) + 1; size > MaxRow {
			return "", 0, 0, errTooLong
		}
		taken = append(taken, next)
		b.WriteByte('\n')
		at, state = r.closing(next, 0)
		at += b.Len()
		b.WriteString(next)
	}
	if state == shut && (r.Trusted && !r.strays || !r.whole(taken)) {
		return b.String(), at, shut, nil
	}
	r.ahead = append(taken[1:], r.ahead...)
	r.lines -= len(taken) - 1
	r.failed += size
	return text, 0, stray, nil
}

// States of a cell that began with a quote, at the end of a line.
const (
	open = iota
	shut
	stray
)

// closing returns where the quote is that closes a cell, which goes on at from.
func (r *Rows) closing(text string, from int) (at, state int) {
	for {
		i := strings.IndexByte(text[from:], '"')
		if i < 0 {
			return 0, open
		}
		at = from + i
		after := text[at+1:]
		switch {
		case r.Escaped && (at-len(strings.TrimRight(text[:at], `\`)))%2 == 1:
			from = at + 1
		case strings.HasPrefix(after, `"`):
			from = at + 2
		case r.trim(after) == "", strings.HasPrefix(r.trim(after), string(r.Comma)):
			return at, shut
		default:
			return at, stray
		}
	}
}

// whole reports whether each of the lines is a row: then no cell goes on from one to the next.
func (r *Rows) whole(lines []string) bool {
	return r.Width > 1 && !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Count(line, string(r.Comma))+1 != r.Width
	})
}

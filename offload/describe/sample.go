package describe

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

const (
	maxTitles = 20 // lines above a table
	// The first rows decide, fewer of a wide table: this many, or those with so many cells.
	sampleRows, minRows, sampleCells   = 200, 20, 2_000
	headerRows, minHeader, headerCells = 64, 10, 1_000 // that are compared with the first row
)

// sample is the start of a text with one comma between its cells.
type sample struct {
	Form
	rows   [][]string // from the names on
	fit    int        // rows with Width cells
	titles int        // lines above the table that are no comments
	typed  int        // columns of numbers, dates or booleans, also in the first row
}

func newSample(f Form, comma rune, head []byte, complete bool) (s sample) {
	f.Kind, f.Comma, f.Quoted = Cells, comma, true
	if !bytes.ContainsRune(head, comma) {
		return s
	}
	n, padded := bytes.Count(head, []byte(string(comma))), bytes.Count(head, []byte(string(comma)+" "))
	f.Spaced = comma != '\t' && padded*10 > n*9 || comma == '\t' && (padded+bytes.Count(head, []byte(" \t")))*2 > n // as helm aligns cells
	if width := f.equalLines(head); width > 1 {
		f.Width = width
	}
	rows, starts, useful, strays := f.read(head, complete)
	if escaped := f; strays && bytes.Contains(head, []byte(`\"`)) {
		escaped.Escaped = true
		if more, begins, _, others := escaped.read(head, complete); !others {
			f, rows, starts, useful, strays = escaped, more, begins, true, false
		}
	}
	if f.Trusted = useful && !strays; strays && !useful {
		f.Quoted = false
		rows, starts, _, _ = f.read(head, complete)
	}
	counts := map[int]int{}
	for _, row := range rows {
		counts[len(row)]++
	}
	for n, rows := range counts {
		if n > 1 && (rows > s.fit || rows == s.fit && n > f.Width) {
			f.Width, s.fit = n, rows
		}
	}
	first := 0
	for first < min(len(rows), maxTitles) && isTitle(rows[first], f.Width) {
		first++
	}
	if first == len(rows) || first == maxTitles {
		return sample{}
	}
	titles := 0
	for i, row := range rows[:first] {
		switch {
		case !strings.HasPrefix(row[0], "#"):
			titles++
		case titles == 0 && i == first-1 && len(row) == f.Width: // the names
			first--
		}
	}
	if titles*2 > len(rows)-first { // a text with commas in some lines
		return sample{}
	}
	f.Hash = strings.HasPrefix(rows[0][0], "#") && first > 0
	if s.titles = titles; titles > 0 {
		f.Assumed = append(f.Assumed, "the lines above the table are not rows")
	}
	f.Skip += starts[first]
	for _, row := range rows[:first] {
		if len(row) == f.Width {
			s.fit--
		}
	}
	s.Form, s.rows = f, rows[first:]
	if f.Hash {
		s.rows = slices.DeleteFunc(s.rows, func(row []string) bool { return len(row) < f.Width && strings.HasPrefix(row[0], "#") })
	}
	return s
}

// oneColumn is the sample of a text each of whose lines is a cell, because the reader names a comma that it does not have.
func oneColumn(f Form, comma rune, head []byte, complete bool) sample {
	f.Kind, f.Comma, f.Quoted, f.Width = Cells, comma, true, 1
	rows, _, _, _ := f.read(head, complete)
	return sample{Form: f, rows: rows, fit: len(rows)}
}

// isTitle reports whether a row is above a table of width columns.
func isTitle(row []string, width int) bool {
	if strings.HasPrefix(row[0], "#") {
		return true
	}
	filled := 0
	for _, cell := range row {
		if cell != "" {
			filled++
		}
	}
	return filled*2 <= width && (len(row) < width || filled < 2 && width > 2 && row[0] != "")
}

// equalLines returns the number of cells of all lines, if it is the same.
func (f Form) equalLines(head []byte) (width int) {
	for line := range bytes.SplitSeq(head, []byte{f.end()}) {
		if len(bytes.TrimRight(line, "\r")) == 0 {
			continue
		}
		n := 1 + bytes.Count(line, []byte(string(f.Comma)))
		if width > 0 && n != width {
			return 0
		}
		width = n
	}
	return width
}

// read returns the rows of a sample, and the number of lines before each of them.
func (f Form) read(head []byte, complete bool) (rows [][]string, starts []int, useful, strays bool) {
	f.Skip, f.Hash = 0, false
	r := f.reader(bytes.NewReader(head))
	r.cut = !complete
	for cells := 0; ; {
		row, err := r.record()
		if cells += len(row); err != nil || len(rows) == sampleRows || cells > sampleCells && len(rows) > minRows {
			return rows, starts, r.useful, r.strays
		}
		rows, starts = append(rows, slices.Clone(row)), append(starts, r.start)
	}
}

// empty reports whether a column has no text at all.
func (s sample) empty() bool {
	for i := range s.Width {
		if !slices.ContainsFunc(s.rows, func(row []string) bool { return i < len(row) && strings.TrimSpace(row[i]) != "" }) {
			return true
		}
	}
	return false
}

// fits returns how well the rows fit to each other, or 0 if they are no table.
func (s sample) fits() int {
	if len(s.rows) < 2 || s.fit*2 < len(s.rows) {
		return 0
	}
	if s.Width == 2 && s.empty() { // as in code, of which each line begins or ends with the comma
		return 0
	}
	return s.fit * 1000 / len(s.rows)
}

// oddName has what is in text rather than in the name of a column.
const oddName = "=:{}()[]<>;"

// isPlainName reports whether a cell can be the name of a column.
func isPlainName(cell string) bool {
	for i, r := range cell {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && r != ' ' && r != '.' && r != '-') {
			return false
		}
	}
	return cell != "" && len(cell) <= 60
}

// header decides whether the first row has the names of the columns: if it has another type than the
// others in a column, as in DuckDB.
func (s *sample) header() {
	s.unnamed()
	names, rows := s.rows[0], s.rows[1:min(len(s.rows), headerRows, max(headerCells/s.Width, minHeader))]
	like, unlike, years, repeated, unnamed, plain, values := 0, 0, 0, false, 0, true, false
	styled := styleOf(names[0]) != 0 // the names have one that no other cell has
	for i, name := range names {
		counts, odd, filled := [kinds]int{}, 0, 0
		for _, row := range rows {
			if i >= len(row) {
				continue
			}
			counts[kindOf(row[i])]++
			styled = styled && styleOf(row[i]) != styleOf(names[0])
			if row[i] != "" {
				filled++
				repeated = repeated || row[i] == name
			}
			if !isPlainName(row[i]) {
				odd++
			}
		}
		kind := kindOf(name)
		for _, k := range []int{number, date, boolean} {
			switch {
			case k == number && isYear(name) && !slices.ContainsFunc(rows, func(row []string) bool { return i < len(row) && isYear(row[i]) }):
				unlike++ // years as names
				years++
			case counts[k] == 0 || counts[k]*10 < (len(rows)-counts[nothing])*9 || kind == nothing:
			case kind == k:
				like++
			default:
				unlike++
			}
		}
		if kind == nothing && i > 0 {
			unnamed++
		}
		plain = plain && isPlainName(name)
		styled = styled && styleOf(name) == styleOf(names[0])
		values = values || filled > 0 && odd*10 >= filled*9
	}
	s.Header = unlike > 0 && unlike >= like || unlike == 0 && like == 0 && !repeated && unnamed == 0
	s.typed = like
	switch {
	case !s.Header:
		s.Assumed = append(s.Assumed, "no row has the names of the columns, so they are c1, c2, ...; header=true takes them from the first row")
	case unlike == years && !(plain && values) && !styled:
		s.Assumed = append(s.Assumed, "the first row was taken for the names of the columns; header=false makes it a row")
	}
}

// unnamed puts an empty name before the others if the first row has one cell fewer than all others, unless the last cell of
// each row is empty: then each row ends with a comma.
func (s *sample) unnamed() {
	names, rows := s.rows[0], s.rows[1:]
	s.Unnamed = len(names) == s.Width-1 && len(rows) > 0 && slices.ContainsFunc(rows, func(row []string) bool { return row[len(row)-1] != "" }) &&
		!slices.ContainsFunc(rows, func(row []string) bool { return len(row) != s.Width })
	if s.Unnamed {
		s.rows[0] = append([]string{""}, names...)
		s.fit++
	}
}

// styleOf returns how a word such as "user_id" or "NAME" is written, or 0.
func styleOf(text string) byte {
	switch {
	case !isPlainName(text) || strings.Contains(text, " "):
		return 0
	case strings.ToLower(text) == text:
		return 'a'
	case strings.ToUpper(text) == text:
		return 'A'
	}
	return 0
}

func isYear(text string) bool {
	return len(text) == 4 && IsInteger(text) && text > "1899" && text < "2101"
}

// text reports whether the rows are rather lines with commas: they have no names, or odd ones, and lines
// above them or different numbers of cells.
func (s sample) text() bool {
	odd := !s.Header
	for _, name := range s.rows[0] {
		odd = odd || strings.ContainsAny(name, oddName)
	}
	return (odd || s.Width == 2) && s.titles > 0 || odd && s.fit*10 < len(s.rows)*9
}

// certain reports whether the text can hardly be something else than a table.
func (s sample) certain() bool {
	equal := s.fit == len(s.rows)
	if !s.Header {
		return !s.empty() && equal && len(s.rows) > 2 && (s.typed*2 >= s.Width || s.Comma != ',' && s.typed > 0 || s.Comma == '\t')
	}
	seen, good, rows := map[string]bool{}, true, len(s.rows)-1
	for _, name := range s.rows[0] {
		if name == "" || len(name) > 60 || name != strings.TrimSpace(name) || seen[name] || strings.ContainsAny(name, oddName) || kindOf(name) == number {
			good = false
		}
		seen[name] = true
	}
	return rows > 1 && (good && (equal || s.titles == 0 && rows >= 10 && s.fit*10 >= len(s.rows)*8) || equal && rows > 4 && len(s.Assumed) == 0)
}

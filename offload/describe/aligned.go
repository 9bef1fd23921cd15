package describe

import (
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	alignedRows = 200 // rows that decide where columns begin
	tabStop     = 8
)

// word is a word of the line with the names, by its first character and the one behind it.
type word struct{ start, end int }

// aligned finds the columns of a text whose cells are below the names of their columns: a space is
// between two columns in each of the first lines. It returns how many cells are filled, or 0 if
// there is one column.
func (f *Form) aligned(head []byte) (filledCells int) {
	f.Kind, f.Header = Aligned, true
	var lines [][]rune
	for line := range strings.Lines(string(head)) {
		text := grid(strings.TrimRight(line, "\r\n"), f.Wide)
		blank := len(strings.TrimSpace(string(text))) == 0
		switch {
		case blank && len(lines) == 0:
			f.Skip++
			continue
		case blank || len(lines) > alignedRows:
		case len(lines) == 0 && !strings.Contains(strings.TrimSpace(string(text)), "  "): // a sentence
			return 0
		default:
			lines = append(lines, text)
			continue
		}
		break
	}
	ruled := false // each name has a rule under it, as pip prints them
	if f.Skip++; len(lines) > 1 {
		under := string(lines[1])
		ruled = dashes.MatchString(under) && len(strings.Fields(under)) > 1
		lines = append(lines[:1], slices.DeleteFunc(lines[1:], func(line []rune) bool { return dashes.MatchString(string(line)) })...)
	}
	if len(lines) < 2 {
		return 0
	}
	names, rows := lines[0], lines[1:]
	words := wordsOf(names)
	if gap := lastGap(lines, 0, words[0].start, 0); gap > 0 && filled(rows, 0, gap) { // of rows with a name
		f.Starts, f.Names = []int{0, gap}, []string{"", string(names[words[0].start:words[0].end])}
	} else {
		f.Starts, f.Names = []int{0}, []string{string(names[words[0].start:words[0].end])}
	}
	wide := false
	for i, w := range words[1:] {
		name := inGrid(names[w.start:w.end])
		until := 1 << 30
		if i+2 < len(words) {
			until = words[i+2].start
		}
		last := len(f.Names) - 1
		gap := lastGap(lines, max(words[i].start, f.Starts[last]+1), w.start, 0)
		if gap < 0 && w.start > words[i].end+1 { // a few rows are wider than the column
			few := min(len(rows)/3, max(len(rows)/10, 1))
			gap = lastGap(lines, max(words[i].start, f.Starts[last]+1), w.start, few)
		}
		if gap < 0 || w.start == words[i].end+1 && !filled(rows, gap, until) {
			f.Names[last] += strings.Repeat(" ", w.start-words[i].end) + name // of two words
			continue
		}
		f.Starts, f.Names = append(f.Starts, gap), append(f.Names, name)
		wide = wide || w.start > words[i].end+1
	}
	f.Width = len(f.Names)
	if f.Width < len(words) && byWords(words, rows) {
		f.Words, f.Width, f.Starts, f.Names = true, len(words), nil, strings.Fields(inGrid(names))
	}
	// A sentence, a line like the others, or names that the rows do not tell apart.
	if !wide || strings.HasSuffix(f.Names[0], ":") || strings.ContainsAny(string(names), ",;=") || slices.ContainsFunc(rows, f.repeats) ||
		slices.ContainsFunc(f.Names, func(name string) bool { return len(strings.Fields(name)) > 2 }) {
		f.Width = 0
		return 0
	}
	if f.Certain = f.Width > 1 && (ruled || f.sure(string(names), rows)); !f.Certain {
		f.Assumed = []string{"the columns were taken to begin where the words of the first line do"}
	}
	if f.Width < 2 {
		return 0
	}
	for _, row := range rows {
		cells, fits := f.alignedCells(row)
		for _, cell := range cells {
			if fits && cell != "" {
				filledCells++
			}
		}
	}
	return filledCells
}

// dashes matches the line under the names of some tables, such as those of pip, and above their sums.
var dashes = lazyregexp.New(`^[-=]{2,}(?: +[-=]{2,})*\s*$`)

// byWords reports whether each cell but the last is a word that is below its name, as ps prints them: a
// wide cell moves the others of its row.
func byWords(names []word, rows [][]rune) bool {
	below := make([]int, len(names)-1)
	for _, row := range rows {
		cells := wordsOf(row)
		if len(cells) < len(names) {
			return false
		}
		for i, name := range names[:len(names)-1] {
			if cells[i].start < name.end && name.start < cells[i].end {
				below[i]++
			}
		}
	}
	return len(below) > 0 && slices.Min(below)*3 >= len(rows)*2
}

// repeats reports whether a row has one of the names in its column.
func (f *Form) repeats(row []rune) bool {
	cells, fits := f.alignedCells(row)
	for i, cell := range cells {
		if fits && cell != "" && cell == f.Names[i] {
			return true
		}
	}
	return false
}

// sure reports whether an aligned text can hardly be something else than a table.
func (f *Form) sure(names string, rows [][]rune) bool {
	numbers := 0
	for i := range f.Names {
		all := true
		for _, row := range rows {
			cells, _ := f.alignedCells(row)
			if len(cells) != f.Width {
				return false
			}
			all = all && kindOf(cells[i]) == number
		}
		if all && kindOf(f.Names[i]) == text {
			numbers++
		}
	}
	if strings.ContainsAny(names, "=:,;{}") {
		return false
	}
	return strings.ToUpper(names) == names && strings.ContainsFunc(names, unicode.IsLetter) || len(rows) > 1 && f.Width > 2 && numbers > 0
}

// wordsOf returns the words of a line.
func wordsOf(line []rune) (words []word) {
	for i := 0; i < len(line); i++ {
		if line[i] == ' ' {
			continue
		}
		start := i
		for i < len(line) && line[i] != ' ' {
			i++
		}
		words = append(words, word{start, i})
	}
	return words
}

// lastGap returns the character behind the last space that all lines but a few have between from and
// the character until, or -1. In a column of numbers, cells begin before the name.
func lastGap(lines [][]rune, from, until, few int) int {
	for at := until - 1; at >= from; at-- {
		cross := 0
		for _, line := range lines {
			if at < len(line) && line[at] != ' ' {
				if cross++; cross > few {
					break
				}
			}
		}
		if cross <= few {
			return at + 1
		}
	}
	return -1
}

// filled reports whether a line has a cell between two characters.
func filled(rows [][]rune, from, until int) bool {
	return slices.ContainsFunc(rows, func(row []rune) bool {
		return len(row) > from && strings.TrimSpace(string(row[from:min(len(row), until)])) != ""
	})
}

// untab returns a line with spaces in place of tabs.
func untab(line string) string {
	if !strings.Contains(line, "\t") {
		return line
	}
	var b strings.Builder
	at := 0
	for _, r := range line {
		if r != '\t' {
			b.WriteRune(r)
			at++
			continue
		}
		n := tabStop - at%tabStop
		b.WriteString(strings.Repeat(" ", n))
		at += n
	}
	return b.String()
}

// isWide reports whether a character has the width of two.
func isWide(r rune) bool { return r >= 0x1100 && narrow.RuneWidth(r) == 2 }

var narrow = runewidth.Condition{}

// behind is what a grid has behind a wide character.
const behind = '\uffff'

// grid returns the characters of a line at the places where a terminal shows them.
func grid(line string, wide bool) []rune {
	text := []rune(untab(line))
	if !wide || !slices.ContainsFunc(text, isWide) {
		return text
	}
	var all []rune
	for _, r := range text {
		if all = append(all, r); isWide(r) {
			all = append(all, behind)
		}
	}
	return all
}

// inGrid returns the text of a part of a grid.
func inGrid(part []rune) string {
	return strings.TrimSpace(strings.ReplaceAll(string(part), string(behind), ""))
}

// alignedRow returns the next row of an aligned table, which ends at an empty line.
func (r *Rows) alignedRow() ([]string, error) {
	text, err := r.line()
	if err == nil && strings.TrimSpace(text) == "" {
		err = r.last("")
	}
	if err != nil {
		return nil, err
	}
	if r.total++; dashes.MatchString(text) {
		return r.alignedRow()
	}
	cells, fits := r.alignedCells(grid(text, r.Wide))
	switch {
	case fits:
	case len(cells) == r.Width:
		r.Crossed++
	default:
		r.odd++
	}
	if r.odd > 2 && r.odd*5 > r.total {
		return nil, NoTable("its lines do not have the columns of the first line")
	}
	return cells, nil
}

// alignedCells returns the cells of a row. fits is false if they cross the columns: then they are split
// at spaces, or are one cell if that does not fit.
func (f *Form) alignedCells(row []rune) (cells []string, fits bool) {
	if f.Words {
		for i, w := range wordsOf(row) {
			if i == f.Width-1 {
				return append(cells, inGrid(row[w.start:])), true
			}
			cells = append(cells, inGrid(row[w.start:w.end]))
		}
		return []string{inGrid(row)}, false
	}
	if cells, fits = cut(row, f.Starts); fits {
		return cells, true
	}
	text := inGrid(row)
	if cells = gap.Split(text, -1); len(cells) != f.Width {
		cells = strings.Fields(text)
	}
	if len(cells) != f.Width {
		cells = []string{text}
	}
	return cells, false
}

// gap matches what is between cells rather than words.
var gap = lazyregexp.New(`\s{2,}`)

// cut returns the cells of a line that begin at starts. ok is false if a cell crosses a start.
func cut(line []rune, starts []int) (cells []string, ok bool) {
	for i, start := range starts {
		end := len(line)
		if i+1 < len(starts) {
			end = min(starts[i+1], end)
		}
		if start > 0 && start < len(line) && line[start-1] != ' ' {
			return nil, false
		}
		cells = append(cells, inGrid(line[min(start, end):end]))
	}
	return cells, true
}

package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// maxNotes is how many notes about columns an answer has.
const maxNotes = 8

// notes say which arrays of JSON documents are the tables, and where the columns of a query are not
// what a reader expects.
func (d *database) notes(ctx context.Context, query string) (notes []string) {
	for _, s := range d.schemas {
		if len(s.Others) > 0 {
			notes = append(notes, fmt.Sprintf("%s is %s (%d rows); the document also has %s, which artifacts: [%q] selects",
				s.Names[0], cmp.Or(s.Path, wholePath), s.Rows, tools.Excerpt(describe.List(s.Others), 200), s.ID+":"+s.Others[0].Path))
		}
	}
	var about []string
	parts := tokens(query)
	for _, s := range d.schemas {
		if len(s.Columns) > 1 && s.Columns[0].Name == "key" && s.Columns[1].Name == "0" {
			notes = append(notes, s.Names[0]+" has a row for each column of the document, whose rows are the columns 0, 1, ...")
		}
	}
	renames := d.renames(parts)
	for i, s := range d.schemas {
		for _, note := range s.Notes {
			notes = append(notes, s.Names[0]+": "+note)
		}
		for _, c := range s.Columns {
			u := useOf(parts, c.Name, renames)
			found := []string{c.note(s.Rows, query, parts, u), d.aboutNulls(ctx, i, c, u)}
			if c.Type == "TEXT" {
				found = append(found, d.almost(ctx, i, columnName(c.Name), u.compared)...)
			}
			for _, note := range found {
				if note != "" && !slices.Contains(about, note) {
					about = append(about, note)
				}
			}
		}
	}
	if function := textAsNumber(parts); function != "" {
		about = append([]string{function + "() returns a text, which never equals a number and is greater than each; compare with a text such as '2024', or use CAST"}, about...)
	}
	if note := d.joined(parts); note != "" {
		about = append([]string{note}, about...)
	}
	about = append(append(d.guesses(parts, renames), d.aboutExtracts(ctx, parts)...), about...)
	if more := len(about) - maxNotes; more > 0 {
		about = append(about[:maxNotes], fmt.Sprintf("%d more columns have cells that do not fit; ask without sql to see them", more))
	}
	return append(notes, about...)
}

// everyColumn matches the "*" of a SELECT, and calculates what needs the order or the value of a
// column.
var (
	everyColumn = lazyregexp.New(`(?i)\b(?:select|distinct)\s+\*|,\s*\*|\w\.\*`)
	calculates  = lazyregexp.New(`(?i)[<>+*/-]|\b(?:sum|total|avg|min|max|order|between|round|abs|cast)\b`)
)

// note says what a query may not expect of a column that it uses, or is empty.
func (c Column) note(rows int64, query string, parts []token, u use) string {
	name := columnName(c.Name)
	var notes []string
	for _, t := range parts {
		if t.isText && u.named && c.converts(t.text) { // also where it is compared in another way, such as CASE c WHEN 'true'
			u.compared = append(u.compared, t.text)
		}
	}
	if i := slices.IndexFunc(u.compared, c.differs); i >= 0 {
		notes = append(notes, fmt.Sprintf("%s is %s, and never equals the text '%s'%s", name, c.Type, tools.Excerpt(cmp.Or(u.compared[i], " "), 40), c.instead()))
	}
	all := everyColumn.MatchString(query)
	lossy := c.Texts != "" && c.Misfits == 0 // Texts has the text of cells with a value
	if c.Read != "" && (u.named || all && lossy) {
		notes = append(notes, name+": "+c.Read)
	}
	if u.asText && c.Stored != nil {
		notes = append(notes, fmt.Sprintf("%s is %s: LIKE, || and text functions see %s, not '%s'", name, c.Type, c.Stored[1], c.Stored[0]))
	}
	if c.Type == "JSON" && (u.asText || slices.ContainsFunc(u.compared, func(text string) bool { return strings.Trim(text[:min(len(text), 1)], "[{") != "" })) {
		notes = append(notes, fmt.Sprintf("%s is JSON: comparisons and text functions see its text, such as '%s'; take values with ->> or json_each",
			name, strings.Join(c.Examples[:min(len(c.Examples), 1)], "")))
	}
	if c.Type == "REAL" && u.modulo {
		notes = append(notes, fmt.Sprintf("%s is REAL, and %% leaves out its fraction (7.5 %% 2 is 1); use mod(%s, n)", name, name))
	}
	text := c.Type == "TEXT" || c.Type == "JSON"
	convert := "convert it with replace, substr and CAST"
	if c.Type == "JSON" {
		convert = "take a value with ->>"
	}
	switch days := slices.DeleteFunc(u.days, func(day string) bool { return len(day) > 10 }); {
	case c.Type == "DATE" && u.asNumber:
		notes = append(notes, name+" is DATE, a text as in ISO 8601, and never equals a number")
	case c.Time != "" && len(days) > 0:
		notes = append(notes, fmt.Sprintf("%s has times, such as %s, which are later than the text '%s'; use date(%s) or the next day",
			name, c.Time, days[0], name))
	case c.Type == "DATE" && u.clock != "" && len(notes) == 0 && describe.FormOf(c.Time) != "0000-00-00 00:00:00":
		notes = append(notes, fmt.Sprintf("%s has values such as %s, which %s() does not give; compare datetime(%s)", name, cmp.Or(c.Time, "2025-01-31"), u.clock, name))
	case c.Type == "DATE" && u.named && len(notes) == 0 && unpadded.MatchString(query):
		notes = append(notes, "months and days of dates have two digits: '2025-03', not '2025-3'")
	case c.Time != "" && u.asDate && strings.Trim(describe.ClockOf(c.Time).Zone, "Z+-0:") != "":
		notes = append(notes, fmt.Sprintf("%s has times with a zone, such as %s, which functions for dates convert to UTC", name, c.Time))
	case u.asDate && c.Type != "DATE" && c.Type != "REAL" && !strings.Contains(query, "unixepoch") && !strings.Contains(query, "'auto'"):
		notes = append(notes, fmt.Sprintf("%s is %s, and functions for dates need texts such as 2025-01-31", name, c.Type))
	case c.Empty+c.Marked > 0 && u.asNull && c.Type == "TEXT":
		notes = append(notes, fmt.Sprintf("%s: %d cells are texts such as '%s' and not NULL", name, c.Empty+c.Marked, c.Marker))
	}
	switch {
	case lossy && (u.named || all):
		notes = append(notes, columnName(c.Texts)+" has the text of such cells")
	case text && len(c.Examples) > 0 && (u.asNumber || u.ordered && c.Type == "JSON" || c.Misfits > 0 && u.named && calculates.MatchString(strings.ReplaceAll(query, "(*)", ""))):
		notes = append(notes, fmt.Sprintf("%s is %s (such as '%s'): SUM, MIN, MAX, ORDER BY and comparisons use its characters, not numbers or dates; %s",
			name, c.Type, c.Examples[0], convert))
	case u.sorts && c.Misordered != nil:
		notes = append(notes, fmt.Sprintf("%s is %s: ORDER BY, MIN, MAX and comparisons use its characters, so that '%s' is less than '%s'",
			name, c.Type, c.Misordered[0], c.Misordered[1]))
	case text || c.Misfits == 0 || !u.named && !all || len(notes) > 0 && c.Read == "" && c.Stored == nil:
	default:
		notes = append(notes, fmt.Sprintf("%s: %d of %d cells are no %s (%s) and count as NULL; %s has their text",
			name, c.Misfits, rows, cmp.Or(map[string]string{"BOOLEAN": "booleans", "DATE": "dates"}[c.Type], "numbers"), strings.Join(c.Examples, ", "), columnName(c.Texts)))
	}
	return strings.Join(notes, "; ")
}

// aboutNulls says what a query that negates a comparison leaves out, or returns "".
func (d *database) aboutNulls(ctx context.Context, table int, c Column, u use) string {
	var n int64
	if times := fmt.Sprintf("SELECT max(%s) FROM s%d.data", quote(c.Name), table+1); u.asDate && !u.asNumber && c.Type == "INTEGER" &&
		d.conn.QueryRowContext(ctx, times).Scan(&n) == nil && n > 253_402_300_799 { // the end of the year 9999
		return fmt.Sprintf("%s has values such as %d, which are milliseconds or less and no seconds, and give NULL; write %[1]s / 1000", columnName(c.Name), n)
	}
	if !u.unequal && !u.notIn && !u.first && !u.added || u.asNull {
		return ""
	}
	name := columnName(c.Name)
	count := fmt.Sprintf("SELECT count(*) FROM s%d.data WHERE %s IS NULL", table+1, quote(c.Name))
	if err := d.conn.QueryRowContext(ctx, count).Scan(&n); err != nil || n == 0 {
		return ""
	}
	switch {
	case u.added:
		return fmt.Sprintf("%s: %d cells are NULL, and so are their sums with other columns; write coalesce(%s, 0)", name, n, name)
	case u.first && !u.filtered:
		return fmt.Sprintf("%s: %d cells are NULL, which sort first; to leave them out, add WHERE %s IS NOT NULL", name, n, name)
	case u.notIn:
		return fmt.Sprintf("%s has %d NULLs, beside which NOT IN finds no rows; add WHERE %s IS NOT NULL", name, n, name)
	}
	if !u.unequal {
		return ""
	}
	return fmt.Sprintf("%s: %d cells are NULL, which <> and NOT leave out; to count them, add OR %s IS NULL", name, n, name)
}

// joined says that a query compares columns of several types, dates of several forms, or empty cells, or returns "".
func (d *database) joined(query []token) string {
	types, empty := map[string][]string{}, map[string]int{} // by the name of a column
	for _, s := range d.schemas {
		for _, c := range s.Columns {
			name, typ := strings.ToLower(c.Name), cmp.Or(map[string]string{"REAL": "number", "INTEGER": "number", "JSON": "TEXT"}[c.Type], c.Type)
			if typ == "DATE" && c.Time != "" {
				typ += " of the form " + describe.FormOf(c.Time)
			}
			if c.Empty > 0 && c.Type == "TEXT" {
				empty[name]++
			}
			if !slices.Contains(types[name], typ) {
				types[name] = append(types[name], typ)
			}
		}
	}
	for _, pair := range d.compared(query) {
		a, b := types[pair[0]], types[pair[1]]
		if pair[0] == pair[1] && len(a) > 1 || len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(a, func(typ string) bool { return slices.Contains(b, typ) }) {
			if pair[0] == pair[1] {
				b = nil
			}
			return fmt.Sprintf("%s and %s are compared, and are of several types (%s), which may never be equal",
				columnName(pair[0]), columnName(pair[1]), strings.Join(slices.Compact(append(a, b...)), ", "))
		}
		if empty[pair[0]] > 0 && empty[pair[1]] > 0 && (pair[0] != pair[1] || empty[pair[0]] > 1 || len(d.schemas) == 1) &&
			!slices.ContainsFunc(query, func(t token) bool { return t.isText && t.text == "" || t.is(" union except intersect ") }) {
			return fmt.Sprintf("%s and %s have empty cells, which equal each other; to leave them out, add WHERE %s <> ''",
				columnName(pair[0]), columnName(pair[1]), columnName(pair[0]))
		}
	}
	return ""
}

// compared returns the names that a query compares with each other, as far as they are those of columns.
func (d *database) compared(query []token) (pairs [][2]string) {
	for i, t := range query {
		j := i + 2
		if at(query, i+1).is(" not ") {
			j++
		}
		switch {
		case slices.Contains(t.within, "using"):
			pairs = append(pairs, [2]string{t.name, t.name})
		case at(query, j-1).is(comparisons):
			for at(query, j).is(" ( select distinct min max ") {
				j++
			}
			if at(query, j+1).is(" . ") {
				j += 2
			}
			if !at(query, j+1).is(" ( ") {
				pairs = append(pairs, [2]string{t.name, at(query, j).name})
			}
		case t.is(" union except intersect ") && !at(query, i+1).is(" all "):
			left := i
			for left > 0 && (!query[left].is(" select ") || len(query[left].within) != len(t.within)) {
				left--
			}
			a, b := d.selected(query[left:]), d.selected(query[i+1:])
			for n := range min(len(a), len(b)) {
				pairs = append(pairs, [2]string{a[n], b[n]})
			}
		}
	}
	return pairs
}

// selected returns the columns of the SELECT that a query begins with. One that is calculated is "".
func (d *database) selected(query []token) (names []string) {
	depth, start := len(query[0].within), true
	for i, t := range query[1:] {
		item := query[i+1:]
		switch {
		case len(t.within) < depth || len(t.within) == depth && t.is(" from where union except intersect limit order group ) "):
			return names
		case len(t.within) > depth || t.is(" distinct "):
		case start && t.is(" * ") && len(d.schemas) > 0:
			names, start = append(names, d.schemas[0].lower()...), false
		case start:
			if at(item, 1).is(" . ") {
				item = item[2:]
			}
			name := at(item, 0).name
			if next := at(item, 1); next.name == "" && next.text != "" && !next.is(" , ) ") {
				name = ""
			}
			names, start = append(names, name), false
		default:
			start = t.is(" , ")
		}
	}
	return names
}

// instead says what to compare with in place of a text.
func (c Column) instead() string {
	switch {
	case c.Type == "BOOLEAN":
		return "; compare with 1 or 0"
	case c.Texts != "":
		return "; the texts are in " + columnName(c.Texts)
	case c.Type == "DATE":
		return "; compare with dates such as " + cmp.Or(c.Time, "2025-01-31")
	}
	return ""
}

// unpadded matches a text that begins with a date whose month or day has one digit.
var unpadded = lazyregexp.New(`'\d{4}-(\d|\d?\d-\d)(\D|$)`)

// startOfDate matches the texts with which dates can be compared.
var startOfDate = lazyregexp.New(`^\d{4}(-\d\d(-\d\d([T ].*)?)?)?$`)

// converts reports whether a text has a form that the cells had before they were converted.
func (c Column) converts(text string) bool {
	switch {
	case c.Stored == nil:
		return false
	case c.Type == "BOOLEAN":
		return describe.IsBoolean(text)
	case c.Type == "DATE":
		_, ok := describe.ParseDate(text)
		return ok && !describe.IsISO(text)
	}
	_, ok := describe.ParseNumber(text)
	return ok
}

// differs reports whether a text is no number or date of the column, which is compared with it.
func (c Column) differs(text string) bool {
	switch c.Type {
	case "TEXT", "JSON":
		return false
	case "DATE":
		return !startOfDate.MatchString(text) || c.Time != "" && !describe.SortsWith(text, c.Time)
	}
	return !describe.IsInteger(text) && !describe.IsReal(text)
}

// wrong returns the error of a query, with the columns that it can use.
func (d *database) wrong(query string, err error) error {
	if _, ok := errors.AsType[*tools.Error](err); ok {
		return err
	}
	text := resultCode.ReplaceAllString(strings.TrimPrefix(err.Error(), "SQL logic error: "), "")
	switch {
	case strings.Contains(text, "not authorized"), strings.Contains(text, "authorization denied"), strings.Contains(text, "prohibited"),
		isChange.MatchString(query):
		text = "only SELECT on these tables is allowed, without PRAGMA, ATTACH, changes and functions for files"
	case strings.Contains(text, "out of memory"):
		text = "the query needs too much memory; narrow it"
	case strings.Contains(text, "too big"):
		text = fmt.Sprintf("a value is longer than %d bytes", maxRow)
	case strings.Contains(text, "full"), strings.Contains(text, "disk I/O"):
		text = fmt.Sprintf("the query needs more than %d MiB for sorting or grouping, or the disk is full; narrow it", maxFile>>20)
	default:
		if m := noColumn.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("no such column: %s%s", m[1], d.meant(m[1], query))
		}
	}
	return tools.Errorf(tools.CodeInvalidArguments, "%s. %s", text, columnsOf(d.schemas))
}

// noColumn matches the error about a name. SQLite adds advice to that of a name in double quotes.
var noColumn = lazyregexp.New(`^no such column: "?(.*?)"?(?: - should this be a string literal in single-quotes\?)?$`)

// meant says which column a wrong name may mean, and that a text has single quotes.
func (d *database) meant(name, query string) string {
	before, short, dotted := strings.Cut(name, ".")
	if !dotted {
		short = name
	}
	var known []string
	for _, s := range d.schemas {
		for _, c := range s.Columns {
			known = append(known, c.Name)
			if dotted && c.Name == before && c.Type == "JSON" {
				return fmt.Sprintf(" (did you mean %s->>'%s'?)", columnName(before), short)
			}
		}
	}
	text := ""
	if nearest := tools.Nearest(short, known); nearest != "" {
		text = fmt.Sprintf(" (did you mean %s?)", columnName(nearest))
	}
	if strings.Contains(query, `"`+name+`"`) {
		text += "; a text is written in single quotes"
	}
	return text
}

// isChange matches statements that change something. For some, SQLite looks for the table
// before it asks authorize.
var isChange = lazyregexp.New(`(?i)^\s*(alter|attach|create|delete|drop|insert|pragma|reindex|replace|update|vacuum)\b`)

// resultCode matches the number that the driver adds to an error.
var resultCode = lazyregexp.New(` \(\d+\)$`)

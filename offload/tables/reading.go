package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// reading is how the cells of a column become values.
type reading struct {
	typ   string
	unit  string
	comma bool // a comma precedes decimals
	order describe.Order
	utc   bool // the times have several zones or lengths, which do not sort as text
	odd   bool // functions for dates do not read the times
}

// fits reports whether a cell that looks like l has a value.
func (r reading) fits(l look) bool {
	switch r.typ {
	case "BOOLEAN":
		return l.what == isBoolean
	case "DATE":
		return l.what == isDate && l.orders&(r.order|describe.ISO) != 0
	}
	return l.what == isNumber && (l.unit == r.unit || l.zero && l.unit == "") && r.number(l) != noValue
}

func (r reading) number(l look) value {
	if r.comma {
		return l.comma
	}
	return l.point
}

// maxOthers is how many per cent of the cells of a column of numbers may be neither numbers nor
// markers.
const maxOthers = 5

// count returns how many cells fit a reading, how many have a value, and those that are NULL.
func (t looks) count(r reading) (fit, all int64, null group) {
	var marked group
	for _, g := range t.groups {
		switch {
		case g.what == isMissing:
			marked = *g
			continue
		case r.fits(g.look):
			fit += g.n
		default:
			null.n += g.n
			null.examples = append(null.examples, g.examples...)
		}
		all += g.n
	}
	null.n, null.examples = null.n+marked.n, append(null.examples, marked.examples...)
	null.examples = null.examples[:min(len(null.examples), 2)]
	return fit, all, null
}

// readings are those that may suit the column.
func (t looks) readings() (all []reading) {
	all = append(all, reading{typ: "BOOLEAN"})
	for _, order := range []describe.Order{describe.ISO, describe.YearFirst, describe.MonthDay, describe.DayMonth, describe.Named} {
		all = append(all, reading{typ: "DATE", order: order})
	}
	for _, g := range t.groups {
		if g.what == isNumber && !slices.Contains(all, reading{typ: "REAL", unit: g.unit}) {
			all = append(all, reading{typ: "REAL", unit: g.unit}, reading{typ: "REAL", unit: g.unit, comma: true})
		}
	}
	return all
}

// decide sets the type of a column, and what a reader must know of it.
func (t looks) decide(c *Column) {
	most := int64(0)
	for _, r := range t.readings() {
		fit, all, null := t.count(r)
		if fit > most && (all-fit)*100 <= all*maxOthers {
			most, c.reading, c.Misfits, c.Examples = fit, r, null.n, null.examples
		}
	}
	has := func(f func(*group) bool) bool { return slices.ContainsFunc(t.groups, f) }
	nested := has(func(g *group) bool { return g.what == isNested })
	code := has(func(g *group) bool { return g.what == isCode })
	if nested || code || most == 0 || c.reading.ambiguousDate(t) {
		c.reading, c.Misfits, c.Examples = reading{typ: "TEXT"}, 0, nil
	}
	switch {
	case nested && len(t.groups) == 1:
		c.typ = "JSON"
	case c.typ == "REAL" && !has(func(g *group) bool { return c.reading.fits(g.look) && c.reading.number(g.look) == real }):
		c.typ = "INTEGER"
	case c.typ == "REAL" && isVersion.MatchString(c.Name) && !has(func(g *group) bool { return g.bare }):
		c.typ, c.Misfits, c.Examples = "TEXT", 0, nil
	}
	if c.Type, c.Empty = c.typ, t.empty; c.typ == "TEXT" || c.typ == "JSON" {
		c.Misordered = t.misordered
		t.odd(c)
	}
	if nested || code && t.shortest == t.longest && t.most == 0 { // codes of one length sort like numbers
		c.Misfits = 0
	}
	lossy := c.typ == "REAL" && (t.longest > maxExact || t.fewest < t.most && has(func(g *group) bool { return g.padded }))
	if c.typ == "DATE" {
		t.zones(c)
	}
	for _, g := range t.groups {
		if c.typ != "TEXT" && c.reading.fits(g.look) {
			t.differs(c, g, lossy)
		}
	}
	if strings := has(func(g *group) bool { return g.what == isString }); has(func(g *group) bool {
		return g.what == isNumber && g.quoted && g.bare || strings && (g.what == isNumber || g.what == isBoolean)
	}) {
		c.Read = "strings of JSON equal numbers and booleans with the same text"
	}
	if t.spaced != "" {
		c.Read = fmt.Sprintf("some cells begin or end with a space, such as '%s'", tools.Excerpt(t.spaced, 40))
		if unseen(t.spaced) {
			c.Read = "some cells have spaces or characters that are not seen, such as " + tools.Excerpt(strconv.QuoteToASCII(t.spaced), 60)
		}
	}
	if t.nul {
		c.Read = "the character NUL, which ends texts in SQLite, is stored as \u2400"
	}
}

// isTotal matches what names a row with the sums or the means of others.
var isTotal = lazyregexp.New(`^(?:\d+ )?(?i:(?:grand |sub)?totals?|total g\x{e9}n\x{e9}ral|(?:zwischen)?summe|gesamt(?:summe|ergebnis)?|somme|suma|totale|totaal|average|mean|` +
	`mittelwert|moyenne|\x{438}\x{442}\x{43e}\x{433}\x{43e}|\x{5408}[\x{8a08}\x{8ba1}]|\x{603b}\x{8ba1}):?$`)

// maxExact is how many digits of an integer a number of the type REAL has.
const maxExact = 15

// isVersion matches the names of columns in which 3.10 is no number.
var isVersion = lazyregexp.New(`(?i:(?:^|[^a-z])(?:ver|versions?|release|tag)(?:$|[^a-z]))|[a-z]Version$`)

// differs notes how the cells of a group are stored, if their text is another one.
func (t looks) differs(c *Column, g *group, lossy bool) {
	for _, text := range g.examples {
		stored := fmt.Sprint(show([]any{c.reading.value(cell{word, text})})[0])
		if stored == text {
			continue
		}
		if c.Stored == nil {
			c.Stored = []string{text, stored}
		}
		loses := lossy && g.padded
		if loses || c.utc || c.Read == "" && c.reading.surprises(g.look) || g.what == isDate && g.orders == c.order && c.reading.surprises(g.look) {
			c.lossy = c.lossy || loses
			if read := fmt.Sprintf("'%s' is read as %s", text, strings.TrimSuffix(stored, ".0")); !c.utc {
				c.Read = read
			} else if c.Read == "" || g.clock.Zone != "Z" {
				c.Read = read + " (UTC)"
			}
			return
		}
	}
}

// zones decides how the times of a column sort: as text, if all of them have the same form.
func (t looks) zones(c *Column) {
	zones := map[bool]bool{}
	var first *group
	for _, g := range t.groups {
		if g.clock == (describe.Clock{}) {
			continue
		}
		if first = cmp.Or(first, g); g.clock != first.clock {
			c.utc = true
		}
		zones[g.clock.Zone != ""] = true
		c.odd = c.odd || g.clock.Odd
	}
	if len(zones) > 1 {
		c.utc, c.Read = false, "some times have a zone and others have none, and they are compared as text"
	}
	for _, g := range t.groups {
		if stored, _ := c.reading.value(cell{word, g.examples[0]}).(string); len(stored) > 10 {
			c.Time = cmp.Or(c.Time, stored)
		}
	}
}

// points says that a column has points which may be between thousands.
func (t looks) points(c *Column) {
	for _, g := range t.groups {
		if g.what != isNumber || g.point == real && g.comma != integer {
			return
		}
		if g.point == real {
			c.Read = fmt.Sprintf("'%s' is read with a decimal point, not as thousands", g.examples[0])
		}
	}
}

// surprises reports whether a reader may take a cell that looks like l for something else.
func (r reading) surprises(l look) bool {
	if l.what == isDate {
		return l.orders&describe.ISO == 0
	}
	return l.what == isNumber && !l.plain && (l.point != noValue && l.comma != noValue && l.point != l.comma ||
		l.unit != "" && !describe.IsCurrency(l.unit) || l.unit == "" && l.negated)
}

// ambiguousDate reports whether the day and the month of the dates may be the other way round.
func (r reading) ambiguousDate(t looks) bool {
	both := describe.MonthDay | describe.DayMonth
	if r.typ != "DATE" || r.order&both == 0 {
		return false
	}
	sure, contrary := false, false
	for _, g := range t.groups {
		sure = sure || g.orders&both == r.order
		contrary = contrary || g.orders&both == both&^r.order
	}
	return !sure || contrary
}

// odd counts the cells of a column of text that look like numbers or dates, if they are the most.
func (t looks) odd(c *Column) {
	n, all, plain := int64(0), int64(0), []string{}
	for _, g := range t.groups {
		switch {
		case g.what == isMissing:
			c.Marked, c.Marker = g.n, g.examples[0]
			continue
		case g.what == isNumber && g.plain:
			plain = append(plain, g.examples...)
			n += g.n
		case g.what == isNumber || g.what == isDate || g.what == isString || g.what == isCode || g.what == isAmount:
			c.Examples = append(c.Examples, g.examples...)
			n += g.n
		}
		all += g.n
	}
	if c.Misfits = n; n*2 <= all {
		c.Misfits = 0
	}
	if c.Examples = append(c.Examples, plain...); len(c.Examples) == 0 && len(t.groups) > 0 {
		c.Examples = t.groups[0].examples
	}
	c.Examples = c.Examples[:min(len(c.Examples), 2)]
}

// value returns a cell as SQLite stores it, or nil if it is missing or does not fit.
func (r reading) value(c cell) any {
	if c.kind == missing {
		return nil
	}
	if r.typ == "TEXT" || r.typ == "JSON" {
		return strings.ReplaceAll(c.text, "\x00", "\u2400")
	}
	text, plain := c.text, !r.comma && r.unit == "" && c.kind != nested
	switch { // the most frequent ones, because lookOf takes long
	case plain && r.typ == "INTEGER" && describe.IsInteger(text):
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	case plain && r.typ == "REAL" && c.kind != quoted && describe.IsReal(text):
		f, _ := strconv.ParseFloat(text, 64)
		return f
	case r.typ == "DATE" && !r.utc && !r.odd && describe.IsISO(text):
		return text
	}
	l := lookOf(c)
	if !r.fits(l) {
		return nil
	}
	switch {
	case r.typ == "BOOLEAN" && strings.EqualFold(text, "true"):
		return int64(1)
	case r.typ == "BOOLEAN":
		return int64(0)
	case r.typ == "DATE" && r.utc && l.clock != (describe.Clock{}):
		return describe.UTC(text)
	case r.typ == "DATE" && r.odd && l.clock != (describe.Clock{}):
		return describe.Regular(text)
	case r.typ == "DATE":
		return describe.ISODate(text, r.order)
	case !l.plain:
		n, _ := describe.ParseNumber(text) // lookOf parsed it
		if text = n.Point; r.comma {
			text = n.Comma
		}
	case r.comma:
		text = strings.ReplaceAll(text, ".", "")
	}
	if r.typ == "REAL" {
		f, _ := strconv.ParseFloat(text, 64) // describe checked it
		return f
	}
	n, _ := strconv.ParseInt(text, 10, 64) // describe checked it
	return n
}

// value returns a cell as SQLite stores it in the column.
func (c Column) value(in cell) any {
	value := c.reading.value(in)
	switch {
	case !c.texts:
		return value
	case in.kind == missing || in.text == "" || value != nil && (!c.lossy || fmt.Sprint(show([]any{value})[0]) == in.text):
		return nil
	}
	return in.text
}

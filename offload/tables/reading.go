package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/describe"
)

// look is what a cell looks like. Cells that look alike are read alike.
type look struct {
	what  byte
	unit  string
	zero  bool
	plain bool // as programs print a number
	// point and comma say what a number is if a point, or a comma, precedes its decimals.
	point, comma value
	orders       describe.Order // of a date
}

// What a cell may look like.
const (
	isOther   = 'o'
	isMissing = 'm' // such as N/A
	isNumber  = 'n'
	isCode    = 'c' // has only digits and is no number, such as 007
	isString  = 's' // a number as a string of JSON, which may be a version
	isDate    = 'd'
	isBoolean = 'b'
	isAmount  = 'a' // a short text with a number first, such as 1k, <5, 1/2 and 10:05:00
	isNested  = '{'
)

// value is what a number is in one of its readings.
type value byte

const (
	noValue value = iota
	integer
	real
)

func valueOf(text string) value {
	switch {
	case text == "":
		return noValue
	case strings.Contains(text, "."):
		return real
	}
	return integer
}

func lookOf(c cell) look {
	text := c.text
	switch c.kind {
	case boolean:
		return look{what: isBoolean}
	case nested:
		return look{what: isNested}
	}
	switch {
	case describe.IsInteger(text):
		return look{what: isNumber, plain: true, point: integer, comma: integer, zero: text == "0"}
	case describe.IsISO(text):
		return look{what: isDate, orders: describe.ISO}
	case describe.IsReal(text):
		if c.kind == quoted {
			return look{what: isString}
		}
		l := look{what: isNumber, plain: true, point: real, zero: strings.Trim(text, "0.") == ""}
		if whole, decimals, _ := strings.Cut(text, "."); len(decimals) == 3 && len(whole) < 4 && whole != "0" {
			l.comma = integer // 1.234
		}
		return l
	case c.kind == word && describe.IsBoolean(text):
		return look{what: isBoolean}
	case describe.IsMarker(text):
		return look{what: isMissing}
	case text != "" && strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == "":
		return look{what: isCode}
	}
	if n, ok := describe.ParseNumber(text); ok {
		return look{what: isNumber, unit: n.Unit, point: valueOf(n.Point), comma: valueOf(n.Comma)}
	}
	if orders, ok := describe.ParseDate(text); ok {
		return look{what: isDate, orders: orders}
	}
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, "<>=~+-")); len(text) <= maxAmount && unicode.IsDigit(first) {
		return look{what: isAmount}
	}
	return look{what: isOther}
}

// maxAmount is the length in bytes of the longest text that may be taken for an amount.
const maxAmount = 20

// maxLooks is how many looks of a column are told apart.
const maxLooks = 40

// looks are those of the cells of a column that are not empty, in the order of their first use.
type looks struct {
	groups []*group
	last   *group
	// shortest and longest are the lengths of the codes and integers.
	shortest, longest int
}

func (t *looks) see(c cell) {
	if c.kind == missing || c.kind == word && c.text == "" {
		return
	}
	l := lookOf(c)
	if t.last == nil || l != t.last.look {
		t.last = t.group(l)
	}
	if l.what == isCode || l.plain && l.point == integer {
		t.shortest, t.longest = min(cmp.Or(t.shortest, len(c.text)), len(c.text)), max(t.longest, len(c.text))
	}
	t.last.add(c.text)
}

func (t *looks) group(l look) *group {
	at := func(l look) int { return slices.IndexFunc(t.groups, func(g *group) bool { return g.look == l }) }
	i := at(l)
	if i < 0 && len(t.groups) >= maxLooks {
		l = look{what: isOther}
		i = at(l)
	}
	if i < 0 {
		l.unit = strings.Clone(l.unit)
		i, t.groups = len(t.groups), append(t.groups, &group{look: l})
	}
	return t.groups[i]
}

// reading is how the cells of a column become values.
type reading struct {
	typ   string
	unit  string
	comma bool // a comma precedes decimals
	order describe.Order
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
	case nested || code && t.shortest == t.longest: // codes of one length sort like numbers
	case c.typ == "TEXT":
		t.odd(c)
	case c.typ == "REAL" && !has(func(g *group) bool { return c.reading.fits(g.look) && c.reading.number(g.look) == real }):
		c.typ = "INTEGER"
	}
	c.Type = c.typ
	for _, g := range t.groups {
		if (c.Read == "" || g.what == isDate && g.orders == c.order) && c.reading.fits(g.look) && c.reading.surprises(g.look) {
			c.Read = fmt.Sprintf("'%s' is read as %v", g.examples[0], c.reading.value(cell{word, g.examples[0]}))
		}
	}
}

// surprises reports whether a reader may take a cell that looks like l for something else.
func (r reading) surprises(l look) bool {
	if l.what == isDate {
		return l.orders&describe.ISO == 0
	}
	return l.what == isNumber && !l.plain && (l.point != noValue && l.comma != noValue && l.point != l.comma || l.unit != "" && !describe.IsCurrency(l.unit))
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
	c.Examples = append(c.Examples, plain...)
	c.Examples = c.Examples[:min(len(c.Examples), 2)]
}

// value returns a cell as SQLite stores it, or nil if it is missing or does not fit.
func (r reading) value(c cell) any {
	if c.kind == missing {
		return nil
	}
	if r.typ == "TEXT" || r.typ == "JSON" {
		return c.text
	}
	l := lookOf(c)
	if !r.fits(l) {
		return nil
	}
	text := c.text
	switch {
	case r.typ == "BOOLEAN" && strings.EqualFold(text, "true"):
		return int64(1)
	case r.typ == "BOOLEAN":
		return int64(0)
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
	case in.kind == missing || in.text == "" || value != nil:
		return nil
	}
	return in.text
}

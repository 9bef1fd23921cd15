package tables

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stevedore-bus/stevedore/offload/describe"
)

// look is what a cell looks like. Cells that look alike are read alike.
type look struct {
	what    byte
	unit    string // of a number
	zero    bool
	plain   bool // as programs print a number
	negated bool // by brackets
	padded  bool // the text is not how the value is printed: 3.10, 1e5, or more digits than a real has
	// point and comma say what a number is if a point, or a comma, precedes its decimals.
	point, comma value
	orders       describe.Order // of a date
	clock        describe.Clock // of a date of ISO
}

// What a cell may look like.
const (
	isOther   = 'o'
	isMissing = 'm' // such as N/A
	isNumber  = 'n'
	isCode    = 'c' // has only digits and is no number, such as 007
	isString  = 's' // a number or a boolean as a string of JSON; the number may be a version
	isDate    = 'd'
	isBoolean = 'b'
	isAmount  = 'a' // a short text with a number first, such as 1k, <5, 1/2, v1.10 and 10:05:00
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
		return look{what: isNumber, plain: true, point: integer, comma: integer, zero: text == "0", padded: len(text) > maxExact}
	case describe.IsISO(text):
		return look{what: isDate, orders: describe.ISO, clock: describe.ClockOf(text)}
	case c.kind == quoted && (describe.IsReal(text) || describe.IsBoolean(text)):
		return look{what: isString}
	case describe.IsReal(text), c.kind == number && strings.ContainsAny(text, ".eE") && describe.IsFinite(text):
		l := look{what: isNumber, plain: true, point: real, zero: text[0] == '0' && strings.Trim(text, "0.") == ""}
		n, padded := describe.Decimals(text)
		l.padded = padded && !strings.HasSuffix(text, ".0") && (n > 0 || c.kind == word) // 3.0 is printed so
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
		return look{what: isNumber, unit: n.Unit, negated: text[0] == '(', point: valueOf(n.Point), comma: valueOf(n.Comma)}
	}
	if orders, ok := describe.ParseDate(text); ok {
		return look{what: isDate, orders: orders}
	}
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, "<>=~+-vV")); len(text) <= maxAmount && unicode.IsDigit(first) {
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
	fewest, most      int // decimals of numbers
	empty             int64
	nul               bool
	spaced            string            // a text that begins or ends with a space
	total             string            // a text such as Total
	forms             map[string]string // for the form of texts with numbers, the greatest one by its characters
	misordered        []string          // two texts of one form, such as web-10 and web-9
}

func (t *looks) see(c cell) {
	if c.kind == missing {
		return
	}
	if c.kind == word && c.text == "" {
		t.empty++
		return
	}
	l := lookOf(c)
	if t.last == nil || l != t.last.look {
		t.last = t.group(l)
	}
	switch {
	case l.what == isCode || l.plain && l.point == integer:
		t.shortest, t.longest = min(cmp.Or(t.shortest, len(c.text)), len(c.text)), max(t.longest, len(c.text))
	case l.plain:
		n, _ := describe.Decimals(c.text)
		if t.fewest, t.most = min(cmp.Or(t.fewest, n), n), max(t.most, n); n == 0 && l.padded { // with an exponent
			t.most = maxExact
		}
	}
	if l.what == isOther || l.what == isAmount {
		t.order(c.text)
		if len(c.text) < 20 && isTotal.MatchString(c.text) {
			t.total = strings.Clone(c.text)
		}
	}
	if l.what == isOther {
		t.nul = t.nul || strings.IndexByte(c.text, 0) >= 0
		if n := len(c.text); t.spaced == "" && n > 0 && (c.text[0] == ' ' || c.text[n-1] == ' ' || unseen(c.text)) {
			t.spaced = strings.Clone(c.text)
		}
	}
	t.last.add(c)
}

// order looks for texts of one form that do not sort by their numbers.
func (t *looks) order(text string) {
	var buffer [40]byte
	form := describe.AppendForm(buffer[:0], text)
	if len(form) == 0 || t.misordered != nil {
		return
	}
	switch greatest, known := t.forms[string(form)]; {
	case known && describe.Misorders(greatest, text):
		t.misordered = []string{strings.Clone(min(greatest, text)), strings.Clone(max(greatest, text))}
	case known && text > greatest, !known && len(t.forms) < maxLooks:
		if t.forms == nil {
			t.forms = map[string]string{}
		}
		t.forms[string(form)] = strings.Clone(text)
	}
}

// unseen reports whether a text begins or ends with white space other than a space, or has characters without width, or
// accents as characters of their own.
func unseen(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	return first != ' ' && unicode.IsSpace(first) || last != ' ' && unicode.IsSpace(last) ||
		strings.Contains(text, "\x1b") || strings.Contains(text, "\u200b") || strings.Contains(text, "\ufeff") || strings.Contains(text, "\u00ad") || !norm.NFC.IsNormalString(text)
}

func (t *looks) group(l look) *group {
	at := func(l look) int { return slices.IndexFunc(t.groups, func(g *group) bool { return g.look == l }) }
	i := at(l)
	if i < 0 && len(t.groups) >= maxLooks {
		l = look{what: isOther}
		i = at(l)
	}
	if i < 0 {
		l.unit, l.clock.Zone = strings.Clone(l.unit), strings.Clone(l.clock.Zone)
		i, t.groups = len(t.groups), append(t.groups, &group{look: l})
	}
	return t.groups[i]
}

package describe

import (
	"slices"
	"strconv"
	"strings"
)

// markers are what programs write where a value is missing.
var markers = strings.Fields("n/a na #n/a null nil none nan - -- \u2013 \u2014 ? <none> <null> <unknown> (null) (empty) \\n")

// IsMarker reports whether a cell says that its value is missing.
func IsMarker(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || len(text) < 10 && (len(text) < 5 || text[0] == '<' || text[0] == '(') && slices.Contains(markers, strings.ToLower(text))
}

// IsBoolean reports whether a cell is true or false.
func IsBoolean(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

// IsInteger reports whether a text is how a 64-bit integer is printed: "007" is text.
func IsInteger(s string) bool {
	text := strings.TrimPrefix(s, "-")
	if text == "" || len(text) > 19 || text[0] == '0' && len(s) > 1 || digits(text) < len(text) {
		return false
	}
	if len(text) < 19 {
		return true
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// IsReal reports whether a text is how programs print a number. They print 5e+20 and 1.5E10, but not
// 123e4, which is rather an id: one digit is before the point or the exponent.
func IsReal(s string) bool {
	if s == "" || len(s) > 40 || s[len(s)-1] < '0' || s[len(s)-1] > '9' {
		return false
	}
	text := strings.TrimPrefix(s, "-")
	whole := digits(text)
	if whole > 15 || whole > 1 && text[0] == '0' {
		return false
	}
	rest, decimals := text[whole:], 0
	if rest != "" && rest[0] == '.' {
		decimals = digits(rest[1:])
		rest = rest[1+decimals:]
	}
	if whole+decimals == 0 || rest == "" {
		return whole+decimals > 0
	}
	exponent := strings.TrimLeft(rest[1:], "+-")
	return rest[0]|0x20 == 'e' && whole == 1 && len(exponent) >= len(rest)-2 && len(exponent) <= 3 && digits(exponent) == len(exponent) && IsFinite(s)
}

// Decimals returns how many digits follow the point of a number for which IsReal is true, and whether
// it may be a version or an id: 3.10, 1e5.
func Decimals(s string) (n int, padded bool) {
	for n < len(s) && s[len(s)-1-n] >= '0' && s[len(s)-1-n] <= '9' {
		n++
	}
	if n == len(s) || s[len(s)-1-n] != '.' {
		return 0, n < len(s) && s[len(s)-1-n]|0x20 == 'e'
	}
	return n, s[len(s)-1] == '0'
}

// digits returns how many digits a text begins with.
func digits(text string) (n int) {
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

// IsFinite reports whether a text is a number that a float64 can have.
func IsFinite(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// Kinds of cells that tell the names of columns from their values.
const (
	nothing = iota
	number
	date
	boolean
	text
	kinds
)

// kindOf returns the kind of a cell.
func kindOf(cell string) int {
	cell = strings.TrimSpace(cell)
	switch {
	case len(cell) > 40:
		return text
	case IsISO(cell):
		return date
	case IsMarker(cell):
		return nothing
	case IsBoolean(cell):
		return boolean
	case IsInteger(cell), IsReal(cell):
		return number
	}
	if _, ok := ParseNumber(cell); ok {
		return number
	}
	if _, ok := ParseDate(cell); ok {
		return date
	}
	return text
}

package describe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// markers are what programs write where a value is missing.
var markers = strings.Fields("n/a na #n/a null nil none nan - -- \u2013 \u2014 ? <none> <null> <unknown> (null) (empty) \\n")

// IsMarker reports whether a cell says that its value is missing.
func IsMarker(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || len(text) < 10 && slices.Contains(markers, strings.ToLower(text))
}

// IsBoolean reports whether a cell is true or false.
func IsBoolean(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

// IsInteger reports whether a text is how a 64-bit integer is printed: "007" is text.
func IsInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 19 || digits[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	if len(digits) < 19 {
		return true
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

var realForm = regexp.MustCompile(`^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?$`)

// IsReal reports whether a text is how a number is printed.
func IsReal(s string) bool {
	if s == "" || len(s) > 40 || s[len(s)-1] < '0' || s[len(s)-1] > '9' || !realForm.MatchString(s) {
		return false
	}
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

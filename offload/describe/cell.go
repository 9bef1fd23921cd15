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
	if len(s) > 40 || !realForm.MatchString(s) {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// oddNumber matches what begins like a number, also behind a currency, and isoDate the dates that
// sort as text.
var (
	oddNumber = regexp.MustCompile(`^[-+(]?\s*(?:[A-Z]{0,3}\p{Sc}|[A-Z]{3})?\s*[-+]?[0-9]+(?:[.,/%: ]|\p{Sc}|[A-Za-z]{1,3}$)`)
	isoDate   = regexp.MustCompile(`^\d{4}-\d\d-\d\d|^\d\d:\d\d`)
)

// IsOdd reports whether a cell looks like a number or a date in a form that SQL does not know.
func IsOdd(text string) bool { return oddNumber.MatchString(text) && !isoDate.MatchString(text) }

// Kinds of cells that tell the names of columns from their values.
const (
	nothing = iota
	number
	date
	boolean
	text
	kinds
)

// numeric matches numbers with separators, currencies and units, and dated dates and times.
var (
	numeric = regexp.MustCompile(`^[-+(]?\s*(?:[A-Z]{0,3}\p{Sc}|[A-Z]{3})?\s*[-+]?[0-9][0-9.,' \x{a0}\x{202f}]*(?:%|\p{Sc}|[A-Za-z\x{b5}]{1,3})?\)?$`)
	dated   = regexp.MustCompile(`^(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.](?:\d\d?|[A-Z][a-z]{2})[-/.]\d\d(?:\d\d)?|\d\d?:\d\d)(?:$|[T :,]+[0-9:.,TZAPMapm+ -]*$)`)
)

// kindOf returns the kind of a cell.
func kindOf(cell string) int {
	cell = strings.TrimSpace(cell)
	switch {
	case IsMarker(cell):
		return nothing
	case IsBoolean(cell):
		return boolean
	case len(cell) > 40 || !strings.ContainsAny(cell, "0123456789"):
		return text
	case IsInteger(cell), IsReal(cell), numeric.MatchString(cell):
		return number
	case dated.MatchString(cell):
		return date
	}
	return text
}

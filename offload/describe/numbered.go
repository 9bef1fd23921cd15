package describe

import (
	"cmp"
	"slices"
	"strings"
)

// maxNumbered is the length in bytes of the longest text whose numbers are compared. Longer ones
// are sentences and hashes.
const maxNumbered = 40

// series are names that have an order of their own.
var series = [][]string{
	strings.Fields("january february march april may june july august september october november december"),
	strings.Fields("monday tuesday wednesday thursday friday saturday sunday"),
	strings.Fields("low medium moderate high critical"),
}

// placeOf returns the series that has a name, or at least its first three letters, and the place of the name there.
func placeOf(name string) (list, place int) {
	if len(name) < 3 || len(name) > len("september") {
		return -1, 0
	}
	name = strings.ToLower(name)
	for list, names := range series {
		if place := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name) }); place >= 0 {
			return list, place
		}
	}
	return -1, 0
}

// AppendForm appends what a text is without its numbers: web-0 for web-10. It appends nothing if the
// text has no number, is no name of a series such as low, medium and high, or is long.
func AppendForm(form []byte, text string) []byte {
	if list, _ := placeOf(text); list >= 0 {
		return append(form, 'a'+byte(list), ' ')
	}
	if len(text) > maxNumbered || !strings.ContainsAny(text, "0123456789") {
		return form
	}
	for i := 0; i < len(text); i++ {
		if n := digits(text[i:]); n > 0 {
			form = append(form, '0')
			i += n - 1
			continue
		}
		form = append(form, text[i])
	}
	return form
}

// Misorders reports whether two texts of the same form sort by their characters in another order than by
// their numbers: web-9 and web-10, 1.9.2 and 1.10.0, Q4 2024 and Q1 2025, also low and high. If a is less by its
// characters, it is greater by its numbers.
func Misorders(a, b string) bool {
	if len(a) > maxNumbered || len(b) > maxNumbered {
		return false
	}
	characters, numbers, runs := cmp.Compare(a, b), 0, 0
	if list, place := placeOf(a); list >= 0 {
		same, other := placeOf(b)
		return list == same && characters*cmp.Compare(place, other) < 0
	}
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n == 0 && m == 0 {
			if a[0] != b[0] {
				return false
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
		order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
		if a, b, runs = a[n:], b[m:], runs+1; numbers == 0 || runs > 1 && order != 0 && a == "" && isYear(x) && isYear(y) {
			numbers = order
		}
		if n == 0 || m == 0 {
			return false
		}
	}
	return a == b && numbers*characters < 0
}

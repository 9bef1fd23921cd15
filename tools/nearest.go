package tools

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns the hint at the known name that is most likely meant by name, such as
// ` (did you mean "read_file"?)`, or "".
func DidYouMean(name string, known []string) string {
	if meant := Nearest(name, known); meant != "" && meant != name {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}

// Nearest returns the known name that is most likely meant by name, or "": one that begins with
// it, or else the one with the fewest edits. A short name may have one, one of 12 letters four.
// Upper and lower case are equal.
func Nearest(name string, known []string) string {
	wrong := []rune(strings.ToLower(name))
	if len(wrong) < 2 || len(wrong) > maxNearest {
		return ""
	}
	most := max(1, len(wrong)/3)
	if len(wrong) > 4 {
		most = max(2, most)
	}
	nearest := ""
	for _, k := range slices.Sorted(slices.Values(known)) {
		lower := strings.ToLower(k)
		if strings.HasPrefix(lower, string(wrong)) {
			return k
		}
		if n := edits(wrong, []rune(lower)); n < most || n == most && nearest == "" {
			nearest, most = k, n
		}
	}
	return nearest
}

// maxNearest is the length of the longest name that Nearest compares.
const maxNearest = 100

// edits returns how many letters must be inserted, removed, replaced or swapped with their
// neighbour to change a into b (the distance of optimal string alignment).
func edits(a, b []rune) int {
	var last, row, next []int // of a[:i-1], a[:i] and a[:i+1]
	for j := range len(b) + 1 {
		row = append(row, j)
	}
	for i := range a {
		next = append(make([]int, 0, len(b)+1), i+1)
		for j := range b {
			n := row[j]
			if a[i] != b[j] {
				n++
			}
			n = min(n, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, last[j-1]+1)
			}
			next = append(next, n)
		}
		last, row = row, next
	}
	return row[len(b)]
}

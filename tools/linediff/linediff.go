// Package linediff compares texts by lines.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package linediff

import "strings"

// context is how many equal lines surround a change.
const context = 3

// Line is a line of a difference.
type Line struct {
	// Op is '-' for a line that only the first text has, '+' for one that only the second text has, and ' '.
	Op byte
	// Before and After are its numbers in the texts, from 1; in the text without it, that of the next line.
	Before, After int
	Text          string // with its line end
}

// Compare returns the changes from before to after, in groups with three equal lines around them. They
// have as few lines as possible if exact is true; otherwise, to find those would take many seconds.
func Compare(before, after string) (groups [][]Line, exact bool) {
	return compare(before, after, maxSteps)
}

func compare(before, after string, steps int) (groups [][]Line, exact bool) {
	a, b := newSide(before), newSide(after)
	exact = match(&a, &b, steps)
	var group []Line
	equal := 0 // lines since the last change
	end := func() {
		if group != nil {
			groups, group = append(groups, group[:len(group)-max(0, equal-context)]), nil
		}
	}
	add := func(op byte, i, j int, text string) { group = append(group, Line{op, i + 1, j + 1, text}) }
	for i, j := 0, 0; i < len(a.lines) || j < len(b.lines); {
		removed, added := i < len(a.lines) && !a.common[i], j < len(b.lines) && !b.common[j]
		if !removed && !added {
			if group != nil {
				add(' ', i, j, a.lines[i])
			}
			if equal++; equal > 2*context {
				end()
			}
			i, j = i+1, j+1
			continue
		}
		if group == nil {
			for n := min(context, i, j); n > 0; n-- {
				add(' ', i-n, j-n, a.lines[i-n])
			}
		}
		equal = 0
		if removed {
			add('-', i, j, a.lines[i])
			i++
		} else {
			add('+', i, j, b.lines[j])
			j++
		}
	}
	end()
	return groups, exact
}

// side is one of the texts.
type side struct {
	lines  []string
	common []bool // whether a line is matched with one of the other text
	ids    []int  // of the lines that are left to match: equal lines have the same
	at     []int  // their indexes in lines
}

func newSide(text string) side {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return side{lines: lines, common: make([]bool, len(lines))}
}

// match sets common to the lines of a longest common subsequence, and reports whether it is one. What is
// left between the equal lines at both ends, and is in both texts, is searched.
func match(a, b *side, steps int) (exact bool) {
	first, endA, endB := 0, len(a.lines), len(b.lines)
	for first < min(endA, endB) && a.lines[first] == b.lines[first] {
		a.common[first], b.common[first] = true, true
		first++
	}
	for first < min(endA, endB) && a.lines[endA-1] == b.lines[endB-1] {
		endA, endB = endA-1, endB-1
		a.common[endA], b.common[endB] = true, true
	}
	ids := map[string]int{}
	for _, line := range a.lines[first:endA] {
		ids[line] = -1
	}
	for i := first; i < endB; i++ {
		if id, ok := ids[b.lines[i]]; ok {
			if id < 0 {
				id = i
				ids[b.lines[i]] = id
			}
			b.ids, b.at = append(b.ids, id), append(b.at, i)
		}
	}
	for i := first; i < endA; i++ {
		if id := ids[a.lines[i]]; id >= 0 {
			a.ids, a.at = append(a.ids, id), append(a.at, i)
		}
	}
	size := len(a.ids) + len(b.ids) + 3
	s := search{a: a, b: b, forward: make([]int, size), backward: make([]int, size), left: steps}
	s.match(0, len(a.ids), 0, len(b.ids))
	return s.left >= 0
}

const (
	// maxSteps bounds an exact search to some seconds. It suffices for about 8,000 lines in another order.
	maxSteps = 1 << 28
	// minCost is how many changes a search looks ahead when its steps are used up.
	minCost = 32
)

// search finds a longest common subsequence with the algorithm of E. W. Myers, "An O(ND) Difference Algorithm
// and Its Variations" (1986), in linear space.
type search struct {
	a, b *side
	// forward and backward are the furthest x of each diagonal, x - y, with the number of changes so far.
	forward, backward []int
	left              int // steps; negative when the result is no longer exact
}

// match matches the ids x0 to x1 of a with y0 to y1 of b.
func (s *search) match(x0, x1, y0, y1 int) {
	pair := func(x, y int) { s.a.common[s.a.at[x]], s.b.common[s.b.at[y]] = true, true }
	for {
		for x0 < x1 && y0 < y1 && s.a.ids[x0] == s.b.ids[y0] {
			pair(x0, y0)
			x0, y0 = x0+1, y0+1
		}
		for x0 < x1 && y0 < y1 && s.a.ids[x1-1] == s.b.ids[y1-1] {
			x1, y1 = x1-1, y1-1
			pair(x1, y1)
		}
		if x0 == x1 || y0 == y1 {
			return
		}
		x, y := s.split(x0, x1, y0, y1)
		s.match(x0, x, y0, y)
		x0, y0 = x, y
	}
}

// split returns a point on a shortest path from (x0, y0) to (x1, y1), or near to one.
func (s *search) split(x0, x1, y0, y1 int) (x, y int) {
	a, b := s.a.ids, s.b.ids
	shift := len(b) + 1 // diagonals may be negative
	lowest, highest := x0-y1+shift, x1-y0+shift
	f, r := s.forward, s.backward
	first, last := x0-y0+shift, x1-y1+shift
	fmin, fmax, rmin, rmax := first, first, last, last
	f[first], r[last] = x0, x1
	odd := (first-last)%2 != 0
	for cost := 1; ; cost++ {
		if fmin > lowest {
			fmin--
			f[fmin-1] = -1
		} else {
			fmin++
		}
		if fmax < highest {
			fmax++
			f[fmax+1] = -1
		} else {
			fmax--
		}
		for d := fmax; d >= fmin; d -= 2 {
			x := max(f[d-1]+1, f[d+1])
			for y := x - d + shift; x < x1 && y < y1 && a[x] == b[y]; y++ {
				x++
			}
			if f[d] = x; odd && rmin <= d && d <= rmax && x >= r[d] {
				return x, x - d + shift
			}
		}
		if rmin > lowest {
			rmin--
			r[rmin-1] = len(a) + 1
		} else {
			rmin++
		}
		if rmax < highest {
			rmax++
			r[rmax+1] = len(a) + 1
		} else {
			rmax--
		}
		for d := rmax; d >= rmin; d -= 2 {
			x := min(r[d-1], r[d+1]-1)
			for y := x - d + shift; x > x0 && y > y0 && a[x-1] == b[y-1]; y-- {
				x--
			}
			if r[d] = x; !odd && fmin <= d && d <= fmax && x <= f[d] {
				return x, x - d + shift
			}
		}
		if s.left -= fmax - fmin + rmax - rmin; s.left < 0 && cost >= minCost {
			break
		}
	}
	// Go on from the point that is the furthest so far.
	for d := fmax; d >= fmin; d -= 2 {
		if at := min(f[d], x1, y1+d-shift); 2*at-d+shift > x+y || x+y == 0 {
			x, y = at, at-d+shift
		}
	}
	return x, y
}

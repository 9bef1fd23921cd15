package linediff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// changes returns the number of removed and added lines, after it has checked that the groups make after
// of before.
func changes(t *testing.T, before, after string, steps int) (removed, added int, exact bool) {
	t.Helper()
	groups, exact := compare(before, after, steps)
	a := strings.SplitAfter(before, "\n")
	var got strings.Builder
	next := 1 // line of before
	copyTo := func(number int) {
		for ; next < number; next++ {
			got.WriteString(a[next-1])
		}
	}
	for _, group := range groups {
		for _, l := range group {
			copyTo(l.Before)
			if got.Len() < 1<<12 && strings.Count(got.String(), "\n") != l.After-1 {
				t.Fatalf("line %d comes after %.300q", l.After, got.String())
			}
			if l.Op != '+' && a[l.Before-1] != l.Text {
				t.Fatalf("line %d is %q, not %q", l.Before, a[l.Before-1], l.Text)
			}
			switch l.Op {
			case '-':
				removed++
				next++
			case '+':
				added++
				got.WriteString(l.Text)
			}
		}
	}
	if copyTo(len(a) + 1); got.String() != after {
		t.Fatalf("the changes of %.300q make %.300q, not %.300q", before, got.String(), after)
	}
	return removed, added, exact
}

// text returns n lines, each one of so many words.
func text(r *rand.Rand, n, words int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintln(&b, r.IntN(words))
	}
	return b.String()
}

// common is the length of a longest common subsequence, by its definition.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if row[j+1] = max(above, row[j]); x == y {
				row[j+1] = diagonal + 1
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestFewestLines(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		words := 1 + r.IntN(12)
		before, after := text(r, r.IntN(60), words), text(r, r.IntN(60), words+i%3)
		if i%4 == 0 {
			after = strings.TrimSuffix(after, "\n")
		}
		a, b := newSide(before).lines, newSide(after).lines
		n := common(a, b)
		if removed, added, exact := changes(t, before, after, maxSteps); removed != len(a)-n || added != len(b)-n || !exact {
			t.Fatalf("%q\n%q: %d removed, %d added, exact: %v; %d are common", before, after, removed, added, exact, n)
		}
	}
}

// Many changes, and texts with little in common, are exact.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	rows := make([]string, 10_000)
	for i := range rows {
		rows[i] = fmt.Sprintf("%d,crane %d,open\n", i, i%9)
	}
	before := strings.Join(rows, "")
	for i := 0; i < len(rows); i += 10 {
		rows[i] = fmt.Sprintf("%d,crane %d,closed\n", i, i%9)
	}
	for name, c := range map[string]struct {
		after          string
		removed, added int
	}{
		"a tenth":        {strings.Join(rows, ""), 1000, 1000},
		"none in common": {text(rand.New(rand.NewPCG(1, 2)), 500_000, 10), 10_000, 500_000},
		"removed":        {strings.Join(rows[:5000], ""), 5500, 500},
	} {
		if removed, added, exact := changes(t, before, c.after, maxSteps); removed != c.removed || added != c.added || !exact {
			t.Errorf("%s: %d removed, %d added, exact: %v", name, removed, added, exact)
		}
	}
}

// The search for the fewest changes has an end. What it then has is still a difference of the texts.
func TestApproximate(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	before, after := text(r, 500_000, 2), text(r, 500_000, 10)
	removed, _, exact := changes(t, before, after, 1<<20)
	if exact || removed == 500_000 {
		t.Errorf("%d lines removed, exact: %v", removed, exact)
	}
}

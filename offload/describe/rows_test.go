package describe

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRowsOfWriters: what a writer of CSV wrote is read as it was, whatever is in its cells.
func TestRowsOfWriters(t *testing.T) {
	random := rand.New(rand.NewPCG(40, 1))
	parts := []string{"a", "word", " ", "\"", "\"\"", "\n", ",", ";", "\t", "|", "1", "2.5", "'", "#", "ü", "x\n\"y\",z"}
	for n := range 300 {
		comma := []rune{',', ';', '\t', '|'}[n%4]
		width := 2 + random.IntN(4)
		var b strings.Builder
		w := csv.NewWriter(&b)
		w.Comma = comma
		want := [][]string{{}}
		for i := range width {
			want[0] = append(want[0], fmt.Sprint("name", i))
		}
		for i := range 3 + random.IntN(200) {
			row := []string{fmt.Sprint(i)}
			for len(row) < width {
				var cell strings.Builder
				for range random.IntN(4) {
					cell.WriteString(parts[random.IntN(len(parts))])
				}
				row = append(row, cell.String())
			}
			want = append(want, row)
		}
		if err := w.WriteAll(want); err != nil {
			t.Fatal(err)
		}
		form := Table([]byte(b.String()), true, Hints{})
		rows, err := form.Rows(strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		got := [][]string{slices.Clone(rows.Columns())}
		for {
			row, err := rows.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, slices.Clone(row))
		}
		if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			i := 0
			for i < min(len(got), len(want))-1 && slices.Equal(got[i], want[i]) {
				i++
			}
			t.Errorf("table %d with %q, form %+v: row %d of %d is %q, want %q of %d rows", n, comma, form, i, len(got), got[min(i, len(got)-1)], want[min(i, len(want)-1)], len(want))
		}
	}
}

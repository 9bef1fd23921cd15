package jq

import (
	"strings"
	"testing"
)

// Each line of a text begins a value that fails at the last level that JSON may have, 60 KB later.
// The search for values takes less than 20 MB all the same, and still finds those of one line.
func TestLogOfValuesThatFail(t *testing.T) {
	for _, begin := range []string{"{\"a\":\n", "[\n", "  [[\n"} {
		const line = `{"level":"info"}`
		rows := newLogRows(strings.NewReader(strings.Repeat(begin, 30_000)+"x\n"+line+"\n"), false)
		found := 0
		row, err := rows.next()
		for ; err == nil; row, err = rows.next() {
			if found++; string(row) != line {
				t.Errorf("found %.100q in lines of %q", row, begin)
			}
		}
		if found != 1 || rows.failed > 20<<20 {
			t.Errorf("%d values in lines of %q, after %d bytes that were none", found, begin, rows.failed)
		}
	}
}

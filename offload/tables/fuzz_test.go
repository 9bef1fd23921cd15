package tables

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/describe"
)

// FuzzFind: no content makes the first pass over it fail in an unknown way, and both passes agree
// about the columns.
func FuzzFind(f *testing.F) {
	for _, text := range []string{
		"a,b\n1,2\n", "a;b\n1;2\n3;4", " id | name\n----+-----\n 1 | x\n(1 row)\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "+---+\n| a |\n+---+\n| 1 |\n+---+\n",
		"NAME   READY\nweb    1/1\n", `[{"a":1},{"b":[1]}]`, `{"x":{"y":[1,2]},"z":[{}]}`, "{\"a\":1}\n{\"b\":2}\n", "x {\"a\":1}\ny\n", "A  B\n\u4e16\u754c  1\n", "a\tb\n1\t2\n",
	} {
		f.Add(text, uint8(len(text)))
	}
	f.Fuzz(func(t *testing.T, text string, how uint8) {
		format := []string{FormatTable, FormatJSON, FormatLog, FormatTable}[how%4]
		table := Table{Format: format, Form: describe.Table([]byte(text), true, describe.Hints{Comma: []rune{0, 0, ';', ','}[how/4%4]})}
		Preview([]byte(text), how%2 == 0, table.Form)
		l := &layout{}
		if format != FormatTable && l.find(table, strings.NewReader(text)) != nil || l.look(table, strings.NewReader(text)) != nil {
			return
		}
		all := l.typed()
		used := map[string]bool{}
		for _, c := range all {
			name := strings.ToLower(c.Name)
			if used[name] || name == "" {
				t.Fatalf("columns %v", all)
			}
			used[name] = true
		}
		err := l.rows(table, strings.NewReader(text), func(row []cell) error {
			if len(row) > len(all) {
				t.Fatalf("a row has %d cells, and the table %d columns", len(row), len(all))
			}
			for i, c := range row {
				v := all[i].value(c)
				if _, text := v.(string); text && (all[i].Type == "INTEGER" || all[i].Type == "REAL") {
					t.Fatalf("%q in a column of type %s", v, all[i].Type)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("the second pass: %v", err)
		}
	})
}

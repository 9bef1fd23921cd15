package offload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// misleadingValues are inputs whose values a query writes in another way than the cells do.
var misleadingValues = map[string]struct{ text, sql, want, note string }{
	"a long string before the rows": {
		`{"meta":[{"a":1}],"blob":"` + strings.Repeat("x", 5<<20) + `","rows":[{"id":1},{"id":2}]}`, "SELECT sum(id) FROM t1", "3", "also has .meta",
	},
	"a long string in a row":          {`{"id":0,"l":[{"t":1}]}` + "\n" + `{"id":1,"s":"` + strings.Repeat("x", 5<<20) + "\"}\n{\"id\":2}\n", "SELECT count(*), sum(id) FROM t1", "3|3", ""},
	"a row of JSON that is cut":       {strings.Repeat("{\"n\":1}\n", 200_000) + `{"n":`, "SELECT count(*), sum(n) FROM t1", "200000|200000", "without the 1 lines that have none"},
	"cells that are JSON":             {"[1],2,3\n[4],5,6\n", "SELECT count(*) FROM t1", "2", "no row has the names"},
	"names behind a byte order mark":  {"\ufeffid,a\n1,2\n" + strings.Repeat("5,6\n", 30) + "\ufeff\"id\",\"a\"\n7,8\n", "SELECT count(*) FROM t1 WHERE id_text = 'id'", "1", "1 rows have the names of the columns again"},
	"names in the middle":             {"id,a\n1,2\n3,4\nid,a\n" + strings.Repeat("5,6\n", 30), "SELECT count(*) FROM t1", "33", "1 rows have the names of the columns again"},
	"colours in cells":                {"id,a\n\x1b[31m1\x1b[0m,2\n\x1b[31m3\x1b[0m,4\n5,6\n", "SELECT count(*) FROM t1 WHERE id = '1'", "0", `not seen, such as "\x1b[31m1`},
	"rows behind many keys":           {behindKeys(1_500), "SELECT sum(id) FROM t1", "3", "also has .l"},
	"rows behind many odd objects":    {behindObjects(8_000), "SELECT sum(id) FROM t1", "3", "too many keys to search all of them"},
	"rows behind a large array":       {`{"l":[{"t":1}],"big":[` + strings.Repeat(`"x",`, 300_000) + `"x"],"rows":[{"id":1},{"id":2}]}`, "SELECT sum(id) FROM t1", "3", "also has .l"},
	"a value in another case":         {"id,level\n1,ERROR\n2,WARN\n3,ERROR\n", "SELECT count(*) FROM t1 WHERE level = 'error'", "0", "level: 2 cells such as 'ERROR' are written in another way than 'error', and do not equal it"},
	"a value in both cases":           {"id,level\n1,ERROR\n2,error\n3,Error\n", "SELECT count(*) FROM t1 WHERE level IN ('error', 'ERROR')", "2", "level: 1 cells such as 'Error'"},
	"a value with a sign in it":       {"id,s\n1,in_progress\n2,done\n", "SELECT count(*) FROM t1 WHERE s <> 'in progress'", "2", "s: 1 cells such as 'in_progress'"},
	"a value that no cell is near":    {"id,level\n1,ERROR\n2,WARN\n", "SELECT count(*) FROM t1 WHERE level = 'fatal' OR lower(level) = 'error' OR level LIKE 'warn'", "2", ""},
	"values in both cases":            {"id,level\n1,ERROR\n2,error\n", "SELECT sum(level = 'error'), sum(level = 'ERROR') FROM t1", "1|1", ""},
	"a value of JSON in another case": {`[{"m":{"s":"Running"}},{"m":{"s":"Failed"}}]`, "SELECT count(*) FROM t1 WHERE m->>'s' = 'running'", "0", "m->>'s': 1 cells such as 'Running'"},
	"a boolean of psql":               {" id | ok \n----+----\n  1 | t\n  2 | f\n(2 rows)\n", "SELECT count(*) FROM t1 WHERE ok = 'true'", "0", "ok: 1 cells such as 't'"},
	"true for yes":                    {"a,ok\nx,yes\ny,no\n", "SELECT count(*) FROM t1 WHERE ok = true", "0", "ok is TEXT (such as 'yes')"},
	"true for a boolean":              {"a,ok\nx,true\ny,false\n", "SELECT count(*) FROM t1 WHERE ok = true", "1", ""},
	"NULL of mysql":                   {"id\tmail\n1\ta@x.de\n2\tNULL\n3\tNULL\n", "SELECT count(mail) FROM t1", "3", "mail: 2 cells are texts such as 'NULL' and not NULL"},
	"an empty string of JSON":         {`[{"a":"","n":1},{"a":"x","n":2}]`, "SELECT count(*) FROM t1 WHERE a IS NULL", "0", "a: 1 cells are texts such as ''"},
	"NULL of mysql in a list":         {"id\tmail\n1\ta@x.de\n2\tNULL\n", "SELECT mail FROM t1 WHERE id = 2", "NULL", ""},
	"arrays one behind the other":     {`[{"id":1},{"id":2}]` + "\n" + `[{"id":3}]`, "SELECT count(*) FROM t1", "3", "the text has 2 arrays, whose elements are the rows"},
	"rows that are arrays":            {"[1,2]\n[3,4]\n", "SELECT count(*), sum(c2) FROM t1", "2|6", ""},
	"months of git":                   {"h,d\na,2025-01-05 10:00:00 +0200\nb,2025-02-01 01:00:00 +0200\n", "SELECT strftime('%Y-%m-%d', d) FROM t1", "2025-01-05\n2025-01-31", "which functions for dates convert to UTC"},
	"days of psql":                    {"h,d\na,2025-01-05 10:00:00+00\nb,2025-02-01 09:00:00+00\n", "SELECT max(date(d)) FROM t1", "2025-02-01", ""},
	"times of Go":                     {"h,d\na,2025-01-05 10:00:00.5 +0000 UTC\nb,2025-02-01 09:00:00.25 +0000 UTC\n", "SELECT max(date(d)) FROM t1", "2025-02-01", ""},
	"milliseconds behind a comma":     {"d;n\n2025-01-05 10:00:00,123;5\n2025-01-05 11:00:00,500;7\n", "SELECT max(strftime('%H', d)) FROM t1", "11", ""},
	"milliseconds as seconds":         {"id,at\n1,1735689600000\n2,1738368000000\n", "SELECT max(datetime(at, 'unixepoch')) FROM t1", "NULL", "at has values such as 1738368000000, which are milliseconds"},
	"milliseconds that are divided":   {"id,at\n1,1735689600000\n2,1738368000000\n", "SELECT max(datetime(at / 1000, 'unixepoch')) FROM t1", "2025-02-01 00:00:00", ""},
	"seconds":                         {"id,at\n1,1735689600\n2,1738368000\n", "SELECT max(datetime(at, 'unixepoch')) FROM t1", "2025-02-01 00:00:00", ""},
	"padded cells of helm":            {"NAME \tSPACE  \tREV\nweb  \tdefault\t1  \napi  \tprod   \t2  \n", "SELECT count(*), max(REV) FROM t1 WHERE NAME = 'web'", "1|1", ""},
	"lines around cells":              {"┌────┬──────┐\n│ id │ name │\n├────┼──────┤\n│ 1  │ a    │\n│ 2  │ b    │\n└────┴──────┘\n", "SELECT sum(id), max(name) FROM t1", "3|b", ""},
	"types below the names of DuckDB": {"┌───────┬─────────┐\n│  id   │  name   │\n│ int32 │ varchar │\n├───────┼─────────┤\n│     1 │ a       │\n└───────┴─────────┘\n", "SELECT id, name FROM t1", "1|a", ""},
	"a box in a cell of psql":         {" id | t \n----+---\n  1 | a│b─\n", "SELECT t FROM t1", "a│b─", ""},
	"a title of AWS":                  {"-------------\n|    List   |\n+----+------+\n| Id | Type |\n+----+------+\n|  1 |  a   |\n+----+------+\n", "SELECT Id, Type FROM t1", "1|a", ""},
	"sums of strace":                  {"% time     calls    errors syscall\n------ --------- --------- ----------------\n 45.00       100           read\n 30.00       103         5 openat\n------ --------- --------- ----------------\n100.00       203         5 total\n", "SELECT sum(calls), count(*) FROM t1", "406|3", "total', so that a row may be the sum of others"},
	"texts of Excel":                  {"sku,n\n=\"00123\",5\n=\"00456\",6\n", "SELECT n FROM t1 WHERE sku = '00123'", "5", ""},
}

// TestColumnsInAnotherOrder: UNION takes columns by their places, which the note says if the tables have them in two orders.
func TestColumnsInAnotherOrder(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	putArtifact(t, store, "s", "a", []byte("id,n\n1,5\n2,6\n"))
	putArtifact(t, store, "s", "b", []byte("n,id\n7,3\n8,4\n"))
	for sql, want := range map[string]string{
		"SELECT * FROM a UNION ALL SELECT * FROM b":         "the tables have the same columns in another order, and SELECT * takes them by their places; write their names",
		"SELECT id, n FROM a UNION ALL SELECT id, n FROM b": "",
	} {
		if res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql}); err != nil || strings.Join(res.Notes, "|") != want {
			t.Errorf("%s: %v, %v; want the note %q", sql, res, err, want)
		}
	}
}

// TestSpacesBetweenCells: numbers that wc and uniq align on the right are in the first column.
func TestSpacesBetweenCells(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	putArtifact(t, store, "s", "a", []byte("   12 a.go\n12345 b.go\n    7 c.go\n"))
	_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT sum(c1), max(c2) FROM a"})
	wantCode(t, err, tools.CodeInvalidArguments, `delimiter=" " divides lines at spaces`)
	res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT sum(c1), max(c2) FROM a", Delimiter: " "})
	if err != nil || !strings.Contains(res.Text(), "12364|c.go") {
		t.Errorf("%v, %v", res, err)
	}
}

// behindKeys returns a document with rows behind many other keys.
func behindKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	return `{"l":[{"t":1}],` + b.String() + `"rows":[{"id":1},{"id":2}]}`
}

// behindObjects returns a document with rows behind many objects that have no keys in common.
func behindObjects(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":{"a%d":1,"b%d":{"c":2}},`, i, i, i)
	}
	return `{"odd":{` + b.String() + `"z":{}},"rows":[{"id":1},{"id":2}]}`
}

// Earlier versions stored rows of JSON of which one is broken as a text.
func TestBrokenRowsOfEarlierVersions(t *testing.T) {
	rows := strings.Repeat("{\"n\":1}\n", 20_000)
	for name, text := range map[string]string{"at the start": "{\"n\":1}\n{\"n\":\n" + rows, "far behind": rows + "{\"n\":\n{\"n\":0}\n{\"n\":1}\n"} {
		store := newFakeStore(StoreConfig{})
		rec := newRecord(aCall, ContextToolResult)
		rec.ID = "a"
		if _, err := store.Put(t.Context(), rec, strings.NewReader(text), func(rec *Record, c Content) error {
			err := summarize(t.Context())(rec, c)
			rec.MediaType = mediaText
			return err
		}); err != nil {
			t.Fatal(err)
		}
		r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
		t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
		if res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT sum(n) FROM a"}); err != nil || !strings.Contains(res.Text(), "20001") || !strings.Contains(res.Text(), "without the 1 lines") {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		if res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: "[.[].n] | add"}); err != nil || !strings.Contains(res.Text(), "20001") {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

package offload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// newSQLReader returns a reader whose queries run in separate processes.
func newSQLReader(t *testing.T, store Store) *Reader {
	t.Helper()
	cfg := ReaderConfig{Pool: newPool(), SQLCache: tables.NewCache(t.TempDir()), SQLTime: time.Minute}
	t.Cleanup(func() {
		if err := cfg.SQLCache.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewReader(store, cfg)
}

// sqlTables are artifacts in each form that SQL reads.
var sqlTables = map[string]string{
	"users":  "id,name,zip,score\n1,Ann,00123,1.5\n2,Bob,99999,\n3,\"Cy, the \"\"third\"\"\",12345,3\n",
	"orders": `{"ok":true,"meta":{"tags":["x"]},"data":{"items":[{"user_id":1,"total":10,"paid":true,"lines":[{"a":1}]},{"user_id":1,"total":2.5,"paid":false},{"user_id":3,"total":4,"paid":true,"late":"yes"}]}}`,
	"semi":   "id;name\n1;a\n2;b\n3;c\n",
	"tabs":   "id\tname\n1\ta\n2\tb\n3\tc\n",
	"rows":   `{"level":"info","n":1}` + "\n" + `{"level":"warn","n":2,"id":"9223372036854775808"}` + "\n" + `{"level":"info","n":3}` + "\n",
	"log":    "starting\n" + strings.Repeat(`2026 app {"level":"info","ms":5}`+"\nplain text\n", 5) + `{"level":"error","ms":7}` + "\n",
	"noted":  "Warning: slow\n{\n \"page\": 1,\n \"items\": [\n  {\"id\": 1},\n  {\"id\": 2}\n ]\n}\nDone.\n",
	"line":   `app {"level":"info","message":"ready"}` + "\nend\n",
	"md":     "# Title\n\nSome text\n\n| Name | Count |\n|:-----|------:|\n| a \\| b | 1 |\n| c | 2 |\n\nmore text | here\n",
	"psql":   " id | name  \n----+-------\n  1 | Ann\n  2 | Bob\n(2 rows)\n",
	"mysql":  "+----+------+\n| id | name |\n+----+------+\n|  1 | Ann  |\n|  2 | Bob  |\n+----+------+\n2 rows in set\n",
	"kubectl": "NAME                     READY   STATUS             RESTARTS      AGE\n" +
		"web-5d7c9                1/1     Running            0             3d\n" +
		"api-1                    0/1     CrashLoopBackOff   12 (5m ago)   3d\n",
	"docker": "CONTAINER ID   IMAGE     COMMAND       PORTS\nabc            nginx     \"/entry x\"\ndef            redis     \"redis\"       6379/tcp\n",
	"broad":  strings.Repeat("name\t", 1_500) + "\n" + strings.Repeat(strings.Repeat("x\t", 1_500)+"\n", 10),
	"cut":    "[" + strings.Repeat(`{"id":1,"v":2},`+"\n", 5_000),
	"kernel": "[0.01] Linux version 6\n[0.22] Command line: quiet\n",
	"prose":  "This is a text.\nIt has no table.\n",
	"scalar": `[3,1,2]`,
	"lists":  "[\"007\",1]\n[8,2,{\"a\":1}]\n",
	"odd":    `{"a b":{"x":[{"v":1}]},"items":[{"w":2},{"w":3}]}`,
	"meta":   "name,n\na,1\nb,2\n",
	// A result of a tool with this name.
	"sqlite_query_1":    "name,n\nc,3\nd,4\n",
	"sqlite_query_12":   "name,n\ne,5\n",
	"my_sqlite_query_1": "name,n\nf,5\n",
	"Users":             "id,name\n9,Di\n8,Ed\n",
	"twice":             "a,A,b (x)\n1,2,3\n1,1,1\n" + strings.Repeat("0,0,0\n", 20) + "4,5,6,7\n",
}

func TestSQL(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	for id, text := range sqlTables {
		putArtifact(t, store, "s", id, []byte(text))
	}
	r := newSQLReader(t, store)
	for _, row := range []struct {
		artifacts, sql, want string
	}{
		{"users orders", "SELECT name, count(*) AS n, sum(total) AS sum FROM t1 JOIN t2 ON t1.id = t2.user_id GROUP BY t1.id ORDER BY 1", "name|n|sum\nAnn|2|12.5\nCy, the \"third\"|1|4.0"},
		{"", "SELECT name, total FROM users u JOIN orders o ON u.id = o.user_id WHERE NOT paid", "name|total\nAnn|2.5"},
		{"", "SELECT zip, typeof(zip), typeof(score) FROM users", "zip|typeof(zip)|typeof(score)\n00123|text|real\n99999|text|null\n12345|text|real"},
		{"orders:.meta.tags", "SELECT value FROM t1", "value\nx"},
		{"orders", "SELECT lines->>'$[0].a' AS a, late FROM t1", "a|late\n1|NULL\nNULL|NULL\nNULL|yes"},
		{"semi tabs", "SELECT count(*) FROM t1 NATURAL JOIN t2", "count(*)\n3"},
		{"rows", "SELECT level, sum(n), max(id) FROM t1 GROUP BY 1 ORDER BY 1", "level|sum(n)|max(id)\ninfo|4|NULL\nwarn|2|9223372036854775808"},
		{"log", "SELECT level, count(*), max(ms) FROM t1 GROUP BY 1", "level|count(*)|max(ms)\nerror|1|7\ninfo|5|5"},
		{"noted", "SELECT sum(id) FROM t1", "sum(id)\n3"},
		{"line", "SELECT level, message FROM t1", "level|message\ninfo|ready"},
		{"md", "SELECT Name, Count + 1 FROM t1", "Name|Count + 1\na \\| b|2\nc|3"},
		{"psql", "SELECT * FROM t1 WHERE id = 2", "id|name\n2|Bob"},
		{"mysql", "SELECT * FROM t1 WHERE id = 2", "id|name\n2|Bob"},
		{"kubectl", `SELECT name, status, restarts FROM t1 WHERE ready LIKE '0/%'`, "NAME|STATUS|RESTARTS\napi-1|CrashLoopBackOff|12 (5m ago)"},
		{"docker", `SELECT "CONTAINER ID", ports FROM t1`, "CONTAINER ID|PORTS\nabc|\ndef|6379/tcp"},
		{"lists", "SELECT c1, c2, typeof(c1), c3 FROM t1", "c1|c2|typeof(c1)|c3\n007|1|text|NULL\n8|2|text|{\"a\":1}"},
		{"scalar", "SELECT sum(value) FROM t1", "sum(value)\n6"},
		{"twice", "SELECT a, a_2, \"b (x)\", c4 FROM t1 WHERE c4 IS NOT NULL", "a|A_2|b (x)|c4\n4|5|6|7"},
		{"", "WITH w AS (SELECT 1 AS x) SELECT x FROM w", "x\n1"},
		{"", "SELECT name, total FROM users AS u, 'orders' WHERE id = user_id AND paid ORDER BY total", "name|total\nCy, the \"third\"|4.0\nAnn|10.0"},
		{"", `SELECT v, w FROM odd, 'odd:.["a b"].x', users WHERE users.id = w`, "v|w\n1|2\n1|3"},
		{"", "SELECT name FROM meta WHERE n = 2", "name\nb"},
		{"users", "WITH meta AS (SELECT max(score) AS m FROM t1) SELECT name FROM t1, meta WHERE score = m", "name\nCy, the \"third\""},
		{"", `SELECT q.name, meta.name FROM "sqlite_query_1" q JOIN meta ON meta.n = q.n - 2 WHERE q.name = 'c'`, "name|name\nc|a"},
		{"", `SELECT a.n, b.n FROM "sqlite_query_1" a JOIN sqlite_query_12 b JOIN my_sqlite_query_1 c ON c.n = b.n WHERE a.n = 3`, "n|n\n3|5"},
	} {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: row.sql, Artifacts: strings.Fields(row.artifacts)})
		if err != nil {
			t.Errorf("%s: %v", row.sql, err)
			continue
		}
		if _, got, _ := strings.Cut(res.Text(), ":\n\n"); !strings.HasPrefix(got, row.want) {
			t.Errorf("%s:\n%s\nwant\n%s", row.sql, res.Text(), row.want)
		}
	}
	for _, row := range []struct{ artifacts, sql, want string }{
		{"users orders", "SELECT nam FROM t1", "no such column: nam (did you mean name?). The tables are:\nt1 (users): 3 rows; id INTEGER, name TEXT, zip TEXT, score REAL\nt2 (orders.data.items): 3 rows; user_id INTEGER, total REAL, paid BOOLEAN, lines JSON, late TEXT; other tables, such as \"orders:.meta.tags\": .meta.tags (1 rows, 1 columns), .data.items[].lines (1 rows, 1 columns)"},
		{"", "SELECT * FROM nowhere", "no such table: nowhere. The query has no tables"},
		{"prose", "SELECT 1", `the artifact "prose": it is not a table that SQL can read (no columns were found in the text; delimiter=" " divides lines at spaces, and "," reads each line as one value); use grep_knowledge or get_knowledge_by_lines`},
		{"kernel", "SELECT 1", `no columns were found in the text; delimiter=" " divides lines at spaces`},
		{"cut", "SELECT count(*) FROM t1", `it is not a table that SQL can read (not JSON: it ends in the middle of a value); use grep_knowledge`},
		{"broad", "SELECT 1", "it has more than 1000 columns"},
		{"orders:.data.none", "SELECT 1", "there are no rows at .data.none; the document has .data.items (3 rows, 5 columns), .meta.tags (1 rows, 1 columns), .data.items[].lines (1 rows, 1 columns), which artifacts: [\"orders:.data.items\"] selects"},
		{"users", "SELEC 1", `near "SELEC": syntax error. The tables are`},
		{"missing", "SELECT 1", `there is no artifact "missing" in this session`},
		{"a b c d e f g h i", "SELECT 1", "it can read 8"},
	} {
		_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: row.sql, Artifacts: strings.Fields(row.artifacts)})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %s", row.sql, err, row.want)
		}
	}
	if _, err := r.SQL(t.Context(), "other", SQLQuery{SQL: "SELECT * FROM users"}); tools.CodeOf(err) != tools.CodeInvalidArguments {
		t.Errorf("another session reads the table: %v", err)
	}
	_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: `SELECT * FROM users u JOIN "Users" v`})
	wantCode(t, err, tools.CodeInvalidArguments, `is the name of both artifacts users and Users`)
	// A query can use the columns as the answer writes them, also those that are keywords.
	words := "abort action add after all alter always analyze and as asc attach before begin between by cascade case cast check collate column commit conflict constraint create cross " +
		"current current_date current_time current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape except exclude exclusive exists " +
		"explain fail filter first following for foreign from full generated glob group groups having if ignore immediate in index indexed initially inner insert instead intersect into is " +
		"isnull join key last left like limit match materialized natural no not nothing notnull null nulls of offset on or order others outer over partition plan pragma preceding primary " +
		"query raise range recursive references regexp reindex release rename replace restrict returning right rollback row rows savepoint select set table temp temporary then ties to " +
		"transaction trigger unbounded union unique update using vacuum values view virtual when where window with without"
	header := strings.ReplaceAll(words, " ", ",")
	putArtifact(t, store, "s", "words", []byte(header+"\n"+strings.Repeat(strings.Repeat("1,", strings.Count(words, " "))+"1\n", 3)))
	described, err := r.SQL(t.Context(), "s", SQLQuery{Artifacts: []string{"words"}})
	if err != nil {
		t.Fatal(err)
	}
	_, columns, _ := strings.Cut(described.Text(), "rows; ")
	if _, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT " + strings.ReplaceAll(columns, " INTEGER", "") + " FROM words"}); err != nil {
		t.Errorf("keywords as columns: %.300v", err)
	}
	res, err := r.SQL(t.Context(), "s", SQLQuery{Artifacts: []string{"users"}})
	if err != nil || res.Text() != "The tables are:\nt1 (users): 3 rows; id INTEGER, name TEXT, zip TEXT, score REAL" {
		t.Errorf("without a query: %v, %v", res, err)
	}
}

// TestHostileSQL: a query that is not a SELECT, or needs much, ends with an error that says so.
func TestHostileSQL(t *testing.T) {
	slow.Test(t)
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "users", []byte(sqlTables["users"]))
	wide := strings.Repeat("a,", 9_999) + "a\n" + strings.Repeat("1,", 9_999) + "1\n"
	putArtifact(t, store, "s", "wide", []byte(wide))
	putArtifact(t, store, "s", "deep", []byte(strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000)))
	putArtifact(t, store, "s", "long", []byte(`[{"a":"`+strings.Repeat("x", 17<<20)+`"}]`))
	putArtifact(t, store, "s", "open", []byte("a,b\n1,2\n1,2\n1,\""+strings.Repeat("x\n", 20<<20)))
	putArtifact(t, store, "s", "forged", []byte("id,\"x\"\") ; DROP TABLE data; --\",name\n1,2,3\n1,2,3\n"))
	r := newSQLReader(t, store)
	file := t.TempDir() + "/f"
	const endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT "
	const denied = "only SELECT on these tables is allowed"
	for sql, want := range map[string]string{
		"ATTACH '" + file + "' AS f":                denied,
		"VACUUM INTO '" + file + "'":                "",
		"PRAGMA temp_store_directory = '/'":         denied,
		"PRAGMA table_info(t1)":                     denied,
		"SELECT * FROM pragma_database_list":        "",
		"SELECT * FROM pragma_table_info('t1')":     "",
		"SELECT load_extension('x')":                "",
		"SELECT writefile('" + file + "', 'x')":     "no such function: writefile",
		"SELECT edit('x')":                          "no such function: edit",
		"SELECT readfile('/etc/passwd')":            "no such function: readfile",
		"SELECT fts3_tokenizer('x')":                "",
		"CREATE TABLE x(a)":                         denied,
		"CREATE VIRTUAL TABLE temp.x USING fts5(a)": denied,
		"DROP VIEW t1":                              denied,
		" drop table t1":                            denied,
		"DROP TABLE missing":                        denied,
		"INSERT INTO t1 VALUES (1,2,3,4)":           denied,
		"DELETE FROM s1.data":                       denied,
		"UPDATE s1.data SET id = 3":                 denied,
		"SELECT * FROM s1.meta":                     denied,
		"SELECT * FROM sqlite_schema":               denied,
		"SELECT * FROM temp.sqlite_master":          denied,
		"SELECT nope FROM deep":                     "",
		"SELECT * FROM long":                        "more than 16777216 bytes",
		"SELECT * FROM open":                        "",
		"SELECT x FROM forged":                      "no such column: x",
		"BEGIN":                                     denied,
		"SELECT 1; DROP VIEW t1":                    denied,
		"SELECT randomblob(1e9)":                    "a value is longer than",
		"SELECT zeroblob(2000000000)":               "a value is longer than",
		"SELECT replace(hex(zeroblob(8000000)), '0', '" + strings.Repeat("x", 1000) + "')": "a value is longer than",
		"SELECT " + strings.Repeat("1,", 9_999) + "1":                                      "",
		"SELECT * FROM wide": "more than 1000 columns",
		"SELECT " + strings.Repeat("(", 9_000) + "1" + strings.Repeat(")", 9_000): "",
		"SELECT printf('%.*c', 2000000000, 'x')":                                  "",
		strings.Repeat("SELECT 1 UNION ALL ", 500) + "SELECT 1":                   "",
		strings.Repeat(" ", 17<<10):                                               "at most 16384",
		"SELECT '" + strings.Repeat("x", 15_500) + "'":                            "",
		"SELECT ?": "",
	} {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql, Artifacts: []string{"users"}})
		code := tools.CodeOf(err)
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil && code != tools.CodeInvalidArguments || len(sql) < 100 && want == "" && err == nil {
			t.Errorf("%.100q: %+v, %v; want %q", sql, res, err, want)
		} else {
			t.Logf("%.60q: %.200v", sql, err)
		}
		if res != nil && len(res.Text()) > PageChars {
			t.Errorf("%.100q answers with %d characters", sql, len(res.Text()))
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a query wrote a file")
	}
	r.cfg.SQLTime = 200 * time.Millisecond
	for _, sql := range []string{endless + "count(*) FROM c", endless + "group_concat(hex(zeroblob(1000000))) FROM c", endless + "hex(randomblob(3000)) FROM c ORDER BY 1", endless + "x FROM c WHERE x < 0", endless + "x FROM c ORDER BY x DESC", "SELECT count(*) FROM t1 a, t1 b, t1 c, t1 d, t1 e, t1 f, t1 g, t1 h, t1 i, t1 j, t1 k, t1 l, t1 m, t1 n, t1 o, t1 p, t1 q, t1 r, t1 s, t1 t"} {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql, Artifacts: []string{"users"}})
		if tools.CodeOf(err) != tools.CodeTimeout || !strings.Contains(err.Error(), "the query was stopped: it reached its limit of 200ms of processor time") {
			t.Errorf("%s: %v, %v", sql, res, err)
		}
	}
	r.cfg.SQLTime = time.Second // in which a busy machine finds a row
	res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: endless + "x FROM c"})
	if err != nil || !res.AtLeast || res.NextCursor == "" || len(res.Text()) > PageChars {
		t.Errorf("rows without end: %v, %v", res, err)
	}
	dir, err := r.cfg.SQLCache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/*.part"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSQLOfSubSessions: a query reads the artifacts of the session and of its sub-agents.
func TestSQLOfSubSessions(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "parent", "users", []byte(sqlTables["users"]))
	putArtifact(t, store, "child", "orders", []byte(sqlTables["orders"]))
	cfg := ReaderConfig{SQL: sqlite.Engine{}, SQLCache: tables.NewCache(t.TempDir()), SubSessions: func(_ context.Context, session string) ([]string, error) {
		if session == "parent" {
			return []string{"child"}, nil
		}
		return nil, nil
	}}
	t.Cleanup(func() { _ = cfg.SQLCache.Close() })
	r := NewReader(store, cfg)
	const sql = "SELECT count(*) FROM users JOIN orders ON id = user_id"
	if res, err := r.SQL(t.Context(), "parent", SQLQuery{SQL: sql}); err != nil || fmt.Sprint(res.Rows) != "[[3]]" {
		t.Errorf("the parent: %v, %v", res, err)
	}
	// The database of users is in the cache now, but not for a session without that artifact.
	for _, q := range []SQLQuery{{SQL: sql}, {SQL: "SELECT 1", Artifacts: []string{"users"}}} {
		if res, err := r.SQL(t.Context(), "child", q); err == nil {
			t.Errorf("the child reads its parent: %v", res)
		}
	}
}

// TestSQLContinues: the parts of a long answer are its rows, each of them once.
func TestSQLContinues(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	var csv strings.Builder
	csv.WriteString("id,text\n")
	for i := range 2_000 {
		fmt.Fprintf(&csv, "%d,%s\n", i, strings.Repeat("x", i%40))
	}
	putArtifact(t, store, "s", "a", []byte(csv.String()))
	putArtifact(t, store, "s", "same", []byte(csv.String()))
	r := newSQLReader(t, store)
	next, cursor := 0, ""
	for parts := 0; parts == 0 || cursor != ""; parts++ {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT id, text FROM a ORDER BY id", Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		if text := res.Text(); res.Total != 2_000 || len(text) > PageChars || res.NextCursor != "" && len(text) < PageChars-noteReserve-200 {
			t.Fatalf("part %d has %d characters and the total %d", parts, len(text), res.Total)
		}
		for _, row := range res.Rows {
			if fmt.Sprint(row[0]) != fmt.Sprint(next) {
				t.Fatalf("row %v; want %d", row, next)
			}
			next++
		}
		cursor = res.NextCursor
	}
	if next != 2_000 {
		t.Errorf("the parts have %d rows", next)
	}
	if _, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT 1", Cursor: "at7+1"}); tools.CodeOf(err) != tools.CodeInvalidArguments {
		t.Errorf("a cursor of another tool: %v", err)
	}
	// A long cell is cut, and a row that is too long is an error.
	res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT group_concat(text) FROM a"})
	if err != nil || !strings.Contains(res.Text(), "characters]") || len(res.Text()) > 5_000 {
		t.Errorf("a long cell: %v, %v", res, err)
	}
	// Equal contents are imported once; a database is used until it is evicted.
	if _, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT count(*) FROM same"}); err != nil {
		t.Error(err)
	}
	dir, err := r.cfg.SQLCache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(dir + "/*.db"); len(files) != 1 {
		t.Errorf("the databases are %v", files)
	}
}

package offload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
)

// TestSQLOracle: random queries have the answers of Python's sqlite3, which imports the same texts
// on its own. Numbers are multiples of 0.25, so that sums are exact in any order.
func TestSQLOracle(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-c", "import sqlite3").Run() != nil {
		t.Skip("there is no python3 with sqlite3")
	}
	random := rand.New(rand.NewPCG(28, 1))
	work := map[string]any{"csv": oracleCSV(random), "json": oracleJSON(random)}
	queries := make([]string, 300)
	for i := range queries {
		queries[i] = oracleQuery(random)
	}
	work["queries"] = queries
	input, err := json.Marshal(work)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/sqloracle.py")
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		exit, _ := err.(*exec.ExitError)
		t.Fatalf("the oracle: %v: %s", err, exit.Stderr)
	}
	var want [][][]any
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "csv", []byte(work["csv"].(string)))
	putArtifact(t, store, "s", "json", []byte(work["json"].(string)))
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}}) // in this process, because that is faster
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	rows := 0
	for i, sql := range queries {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql, Artifacts: []string{"csv", "json"}})
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		got := throughJSON(t, res.Rows)
		if len(want[i]) == 0 && len(got) == 0 {
			continue
		}
		rows += len(got)
		if g, w := fmt.Sprint(got), fmt.Sprint(want[i]); g != w {
			t.Errorf("%s:\n%.500s\nwant\n%.500s", sql, g, w)
		}
	}
	t.Logf("%d queries with %d rows", len(queries), rows)
}

// throughJSON returns rows with the types that a decoder gives them.
func throughJSON(t *testing.T, rows [][]any) (out [][]any) {
	t.Helper()
	data, err := json.Marshal(rows)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func oracleCSV(random *rand.Rand) string {
	var b strings.Builder
	b.WriteString("id,user_id,amount,zip,city,note\r\n")
	for i := range 400 {
		amount := pick(random, "", fmt.Sprint(float64(random.IntN(4000)-500)/4))
		note := pick(random, "", "plain", `"with, comma"`, `"with ""quotes"""`, "\"two\nlines\"", "Grüße", "7")
		fmt.Fprintf(&b, "%d,%d,%s,%05d,%s,%s\r\n", i, random.IntN(60), amount, random.IntN(100_000), pick(random, "Oslo", "Paris", "Rome", "Lima"), note)
	}
	return b.String()
}

func oracleJSON(random *rand.Rand) string {
	rows := make([]map[string]any, 50)
	for i := range rows {
		rows[i] = map[string]any{"id": i, "name": fmt.Sprintf("user %d", i%37), "score": pick[any](random, nil, 1, 2.5, -3.75), "active": random.IntN(2) == 0, "tags": []any{i % 3, "x"}}
		if i%5 == 0 {
			rows[i]["extra"] = pick[any](random, "a", "b", nil)
		}
	}
	data, _ := json.Marshal(map[string]any{"ok": true, "data": map[string]any{"small": []int{1}, "rows": rows}})
	return string(data)
}

// oracleQuery returns a query whose order is complete.
func oracleQuery(random *rand.Rand) string {
	condition := func(p string) string {
		return pick(random, p+"amount > "+fmt.Sprint(random.IntN(600)), p+"city = '"+pick(random, "Oslo", "Rome", "none")+"'", p+"zip LIKE '0%'", p+"zip = '00123' OR "+p+"id < 9",
			p+"note = ''", p+"amount IS NULL", p+"note LIKE '%\"%'", p+"id % "+fmt.Sprint(random.IntN(7)+2)+" = 1", "length("+p+"note) > 5", p+"note = 7", p+"zip BETWEEN '2' AND '5'")
	}
	aggregate := func(p string) string {
		return pick(random, "count(*)", "sum("+p+"amount)", "max("+p+"amount)", "min("+p+"zip)", "avg("+p+"amount) > 100", "count(DISTINCT "+p+"user_id)", "total("+p+"amount)", "max("+p+"note)")
	}
	switch random.IntN(7) {
	case 0:
		return "SELECT " + pick(random, "*", "id, amount * 2, upper(city)", "id, zip || '-' || city", "id, coalesce(amount, -1), typeof(zip)") + " FROM t1 WHERE " + condition("") + " ORDER BY id LIMIT " + fmt.Sprint(random.IntN(60))
	case 1:
		return "SELECT " + pick(random, "city", "user_id", "note", "substr(zip, 1, 1)") + " AS k, " + aggregate("") + " FROM t1 WHERE " + condition("") + " GROUP BY k HAVING count(*) > " + fmt.Sprint(random.IntN(3)) + " ORDER BY k"
	case 2:
		return "SELECT t2.name AS k, " + aggregate("t1.") + " FROM t1 " + pick(random, "JOIN", "LEFT JOIN") + " t2 ON t1.user_id = t2.id WHERE " + condition("t1.") + " GROUP BY k ORDER BY k"
	case 3:
		return "SELECT id, name, score, active FROM t2 WHERE " + pick(random, "active", "NOT active", "score > 1", "score IS NULL", "extra = 'a'", "name LIKE '%3'") + " ORDER BY id"
	case 4:
		return "SELECT id, amount, rank() OVER (PARTITION BY city ORDER BY amount, id) AS r FROM t1 WHERE " + condition("") + " ORDER BY id LIMIT 50"
	case 5:
		return "SELECT id, tags->>'$[0]' AS tag, json_array_length(tags) FROM t2 WHERE id IN (SELECT user_id FROM t1 WHERE " + condition("") + ") ORDER BY id"
	}
	return "WITH w AS (SELECT user_id, " + aggregate("") + " AS v FROM t1 GROUP BY user_id) SELECT v, count(*) FROM w LEFT JOIN t2 ON t2.id = w.user_id WHERE " + pick(random, "active", "t2.id IS NULL", "score < 2") + " GROUP BY v ORDER BY v LIMIT 40"
}

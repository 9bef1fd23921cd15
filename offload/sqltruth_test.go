package offload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// mostly returns a CSV of 3,000 rows with ms from 0 to 99, one of which is something else.
func mostly(header, other string) string {
	var b strings.Builder
	b.WriteString(header + "\n")
	for i := range 3_000 {
		ms := fmt.Sprint(i % 100)
		if i == 2_499 {
			ms = other
		}
		fmt.Fprintf(&b, "%d,%s,v%d\n", i, ms, i%7)
	}
	return b.String()
}

// TestSQLIsNotSilentlyWrong: a few cells that are no numbers do not make a column of numbers text,
// count as NULL with a note, and stay reachable. What SQLite would guess is an error or has a note.
func TestSQLIsNotSilentlyWrong(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	var rows strings.Builder
	for i := range 3_000 {
		ms := fmt.Sprint(i % 100)
		if i == 2_499 {
			ms = `"N/A"`
		}
		fmt.Fprintf(&rows, `{"id":%d,"ms":%s}`+"\n", i, ms)
	}
	for id, text := range map[string]string{
		"na": mostly("id,ms,name", "N/A"), "dash": mostly("id,ms,name", "-"), "nil": mostly("id,ms,name", "null"), "unit": mostly("id,ms,name", "9ms"),
		"json":   rows.String(),
		"nested": `[{"id":1,"sub":{"x":5}},{"id":2,"sub":{"x":6}}]`,
		"money":  "item,price\na,\"1,234.50\"\nb,\"2,000.00\"\nc,€5.00\nd,\"7,5\"\n",
		"dates":  "day,n\n01/02/2025,1\n12/31/2024,2\n03/04/2025,3\n",
		"iso":    "day,n\n2025-01-02,1\n2024-12-31,2\n2025-03-04,3\n",
		"flags":  "name,paid\na,true\nb,false\nc,true\n",
		"codes":  "name,zip\na,00123\nb,99999\nc,12345\n",
		"spaces": "Region,Total Profit\nEU,1\nUS,2\nEU,4\n",
		"taken":  "ms,ms_text\n" + strings.Repeat("1,a\n", 50) + "N/A,b\n",
	} {
		putArtifact(t, store, "s", id, []byte(text))
	}
	r := newSQLReader(t, store)
	const noted = "[ms: 1 of 3000 cells are no numbers (%s) and count as NULL; ms_text has their text]"
	for _, row := range []struct{ id, sql, want, note string }{
		{"na", "SELECT count(*) FROM t1 WHERE ms > 50", "1469", fmt.Sprintf(noted, "N/A")},
		{"na", "SELECT max(ms), typeof(ms) FROM t1 WHERE ms IS NOT NULL", "99|integer", fmt.Sprintf(noted, "N/A")},
		{"na", "SELECT id, ms_text FROM t1 WHERE ms_text IS NOT NULL", "2499|N/A", ""},
		{"na", "SELECT * FROM t1 WHERE id = 2499", "2499|NULL|v0|N/A", fmt.Sprintf(noted, "N/A")},
		{"na", "SELECT count(*) FROM t1 WHERE ms = 'N/A'", "0", "never equals the text 'N/A'; the texts are in ms_text"},
		{"na", "SELECT count(*) FROM t1", "3000", ""},
		{"dash", "SELECT sum(ms) FROM t1", "148401", fmt.Sprintf(noted, "-")},
		{"nil", "SELECT max(ms) FROM t1", "99", fmt.Sprintf(noted, "null")},
		{"unit", "SELECT max(ms) FROM t1", "99", fmt.Sprintf(noted, "9ms")},
		{"json", "SELECT max(ms), count(ms) FROM t1", "99|2999", fmt.Sprintf(noted, "N/A")},
		{"money", "SELECT count(*), sum(price) FROM t1", "4|", "price is TEXT (such as '1,234.50')"},
		{"dates", "SELECT count(*) FROM t1 WHERE day BETWEEN '01/01/2025' AND '12/31/2025'", "0", "day is DATE, and never equals the text '01/01/2025'; compare with dates such as 2025-01-31; day: '12/31/2024' is read as 2024-12-31"},
		{"iso", "SELECT max(day) FROM t1", "2025-03-04", ""},
		{"flags", "SELECT sum(paid) FROM t1", "2", ""},
		{"flags", "SELECT count(*) FROM t1 WHERE paid = 'true'", "0", "compare with 1 or 0"},
		{"codes", "SELECT zip FROM t1 WHERE name = 'a'", "00123", ""},
		{"spaces", `SELECT sum("Total Profit") FROM t1`, "7", ""},
		{"taken", "SELECT sum(ms), max(ms_text), max(ms_text_2) FROM t1", "50|b|N/A", "ms_text_2 has their text"},
	} {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: row.sql, Artifacts: []string{row.id}})
		if err != nil {
			t.Errorf("%s of %s: %v", row.sql, row.id, err)
			continue
		}
		_, got, _ := strings.Cut(res.Text(), ":\n\n")
		_, got, _ = strings.Cut(got, "\n")
		if !strings.HasPrefix(got, row.want) || !strings.Contains(got, row.note) || row.note == "" && len(res.Notes) > 0 {
			t.Errorf("%s of %s:\n%s\nwant %s and the note %q", row.sql, row.id, got, row.want, row.note)
		}
	}
	for _, sql := range []string{`SELECT "sub.x" FROM t1`, `SELECT sub.x FROM t1`} {
		_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql, Artifacts: []string{"nested"}})
		if tools.CodeOf(err) != tools.CodeInvalidArguments || !strings.Contains(err.Error(), "(did you mean sub->>'x'?)") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for sql, want := range map[string]string{
		`SELECT sum("Totl Profit") FROM t1`:               `no such column: Totl Profit (did you mean "Total Profit"?); a text is written in single quotes. The tables are:`,
		`SELECT count(*) FROM t1 WHERE "Regoin" = 'EU'`:   `no such column: Regoin (did you mean Region?)`,
		`SELECT count(*) FROM t1 WHERE Region = "EU"`:     `no such column: EU; a text is written in single quotes`,
		`SELECT t1.Regoin FROM t1`:                        `no such column: t1.Regoin (did you mean Region?). The tables are:`,
		`SELECT 1 FROM t1 ORDER BY "something different"`: `no such column: something different; a text`,
	} {
		_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql, Artifacts: []string{"spaces"}})
		if tools.CodeOf(err) != tools.CodeInvalidArguments || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", sql, err, want)
		}
	}
}

// TestAnotherEncoding: the error says how the text is read.
func TestAnotherEncoding(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "gbk", []byte("city,people\n"+strings.Repeat("\xb1\xb1\xbe\xa9,2189\n\xc9\xcf\xba\xa3,2487\n", 40)))
	r := newSQLReader(t, store)
	_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT 1 FROM t1", Artifacts: []string{"gbk"}})
	_, ofJQ := r.JQ(t.Context(), "s", "gbk", JQQuery{Query: ".city"})
	for _, err := range []error{err, ofJQ} {
		wantCode(t, err, tools.CodeInvalidArguments, "in an encoding other than UTF-8; jq and SQL read texts in UTF-8, UTF-16 and Latin-1, into which iconv converts others")
	}
}

package offload

import (
	"strings"
	"testing"
)

// misleading are inputs that a reader takes easily for something else. The answer to a query about
// them is right, or has the note.
var misleading = map[string]struct{ text, sql, want, note string }{
	"a cell that begins with a quote": {
		"title\tyear\n" + strings.Repeat("Song\t1977\n", 1_000) + "\"Heroes\" (song)\t1978\n" + strings.Repeat("Other\t1979\n", 100),
		"SELECT count(*), sum(year = 1978) FROM t1", "1101|1", "",
	},
	"a quote that a later row closes": {
		"id\ttext\n" + strings.Repeat("1\tx\n", 500) + "2\t\"open\n" + strings.Repeat("3\ty\n", 2_000) + "4\tclosed\"\n5\tz\n",
		"SELECT count(*), max(id) FROM t1", "2503|5", "",
	},
	"no names":                {"4\t./a\n8\t./b\n12\t.\n", "SELECT sum(c1), max(c2) FROM t1", "24|./b", "no row has the names"},
	"names that may be a row": {"name,city\nAnn,Oslo\nBob,Rome\n", "SELECT count(*) FROM t1", "2", "header=false makes it a row"},
	"sep=":                    {"sep=;\nid;name\n1;a,b\n2;c,d\n", "SELECT max(name) FROM t1", "c,d", ""},
	"lines that end in CR":    {"id,name\r1,a\r2,b\r", "SELECT sum(id) FROM t1", "3", ""},
	"comments":                {"# made by x\nid,name\n1,a\n# more\n2,b\n", "SELECT count(*), sum(id) FROM t1", "2|3", ""},
	"a title":                 {"Report of May\n\nid,name,n\n1,a,5\n2,b,6\n", "SELECT sum(n) FROM t1", "11", "above the table are not rows"},
	"spaces":                  {"id, name, n\n1, a, 5\n2, b, 6\n", "SELECT sum(n) FROM t1 WHERE name = 'b'", "6", ""},
	"rows that lack cells":    {"id,name,n\n1,a\n" + strings.Repeat("2,b,6\n", 20), "SELECT count(*), sum(n) FROM t1", "21|120", "1 rows have fewer cells"},
	"pipes":                   {"id|name\n1|a\n2|b\n", "SELECT sum(id) FROM t1", "3", ""},
	"a log of W3C":            {"#Version: 1.0\n#Fields: date time sc-status\n2025-01-01 10:00 200\n2025-01-01 10:01 404\n", `SELECT count(*) FROM t1 WHERE "sc-status" = 404`, "1", ""},
	"a log of Zeek":           {"#separator \\x09\n#fields\tts\tid.orig_h\n#types\ttime\taddr\n1.5\t10.0.0.1\n2.5\t10.0.0.2\n#close\n", "SELECT count(*), max(ts) FROM t1", "2|2.5", ""},
}

func TestMisleadingInputs(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{}) // in this process, because that is faster
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	for name, row := range misleading {
		putArtifact(t, store, "s", name, []byte(row.text))
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: row.sql, Artifacts: []string{name}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, got, _ := strings.Cut(res.Text(), ":\n\n")
		_, got, _ = strings.Cut(got, "\n")
		if rows, _, _ := strings.Cut(got, "\n\n["); rows != row.want || !strings.Contains(got, row.note) || row.note == "" && len(res.Notes) > 0 {
			t.Errorf("%s:\n%s\nwant %s and the note %q", name, got, row.want, row.note)
		}
	}
}

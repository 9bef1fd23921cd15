package offload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

func TestJQ(t *testing.T) {
	r := stored(t, []byte(`{"items":[{"id":1,"price":1.10},{"id":12345678901234567890,"price":1e400}],"html":"<b>\u2028"}`))
	for query, want := range map[string]string{
		".items | length":              "Found 1 result(s) for query '.items | length' in knowledge#a\n\n2",
		".items[].id":                  "Found 2 result(s) for query '.items[].id' in knowledge#a\n\n1\n12345678901234567890",
		".items[].price":               "Found 2 result(s) for query '.items[].price' in knowledge#a\n\n1.10\n1e400",
		".html, .none":                 "Found 2 result(s) for query '.html, .none' in knowledge#a\n\n\"<b>\u2028\"\nnull",
		"empty":                        "Found 0 result(s) for query 'empty' in knowledge#a",
		"1, halt, 2":                   "Found 1 result(s) for query '1, halt, 2' in knowledge#a\n\n1",
		"$ENV | length, (env|length)":  "Found 2 result(s) for query '$ENV | length, (env|length)' in knowledge#a\n\n0\n0",
		".items | map(select(.id==1))": "Found 1 result(s) for query '.items | map(select(.id==1))' in knowledge#a\n\n[{\"id\":1,\"price\":1.10}]",
	} {
		res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: query})
		if err != nil {
			t.Errorf("jq %q: %v", query, err)
		} else if got := res.Text(); got != want {
			t.Errorf("jq %q is\n%s\nwant\n%s", query, got, want)
		}
	}
	for query, text := range map[string]string{
		".[":                      "bad jq query",
		"nothing":                 "function not defined",
		".items.x":                "expected an object",
		`error("x")`:              "x",
		`import "m" as m; 1`:      "bad jq query",
		"input":                   "failed: there is no more input",
		strings.Repeat(".", 5000): "at most 4096",
	} {
		_, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: query})
		wantCode(t, err, tools.CodeInvalidArguments, text)
	}
}

func TestJQOfSeveralValues(t *testing.T) {
	r := stored(t, []byte("{\"n\":1}\n{\"n\":2}\n"))
	res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: ".n"})
	if err != nil || len(res.Results) != 2 || string(res.Results[1]) != "2" {
		t.Errorf("results are %s, %v", res.Results, err)
	}
}

func TestJQBounds(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "text", []byte("just text"))
	putArtifact(t, store, "s", "json", []byte(`[`+strings.Repeat(`"0123456789",`, 10_000)+`1]`))
	r := NewReader(store, ReaderConfig{JQTime: time.Minute})
	for _, row := range []struct{ id, query, code, text string }{
		{"text", ".", tools.CodeInvalidArguments, "is not JSON"},
		{"json", ".", tools.CodeInvalidArguments, "longer than the 14000 characters"},
	} {
		_, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.query})
		wantCode(t, err, row.code, row.text)
	}
	res, err := r.JQ(t.Context(), "s", "json", JQQuery{Query: ".[]"})
	if err != nil || !res.Limited || len(res.Results) < 1_000 || len(res.Text()) > PageChars || !strings.Contains(res.Text(), fmt.Sprintf("continue with cursor=\"at0+%d\",", len(res.Results))) {
		t.Errorf("many results: %d, limited %v, %v", len(res.Results), res.Limited, err)
	}
	// Only the check of the heap stops this query.
	_, err = r.JQ(t.Context(), "s", "json", JQQuery{Query: `[range(1e12) | tostring * 100000] | length`})
	wantCode(t, err, tools.CodeInvalidArguments, "needs too much memory")
	r = NewReader(store, ReaderConfig{JQTime: 200 * time.Millisecond})
	for _, query := range []string{"last(range(1e12))", "def f: f; f"} {
		_, err = r.JQ(t.Context(), "s", "json", JQQuery{Query: query})
		wantCode(t, err, tools.CodeTimeout, "was stopped: it reached its limit of 200ms of processor time")
	}
}

// TestJQInProcess: a separate process gives the same results, and no query takes
// memory of this process.
func TestJQInProcess(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "a", []byte(`{"id":12345678901234567890,"price":1e400,"html":"<b>\u2028"}`+"\n1"))
	putArtifact(t, store, "s", "text", []byte("just text"))
	putArtifact(t, store, "s", "big", []byte("["+strings.Repeat("1,", 100_000)+"1]"))
	cfg := ReaderConfig{Pool: newPool(), JQTime: time.Minute}
	r := NewReader(store, cfg)
	res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: "."})
	if want := "Found 2 result(s) for query '.' in knowledge#a\n\n" + `{"id":12345678901234567890,"price":1e400,"html":"<b>` + "\u2028" + `"}` + "\n1"; err != nil || res.Text() != want {
		t.Errorf("results are %+v, %v; want %s", res, err, want)
	}
	if res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: "empty"}); err != nil || len(res.Results) != 0 {
		t.Errorf("nothing is %+v, %v", res, err)
	}
	if res, err := r.JQ(t.Context(), "s", "big", JQQuery{Query: "length"}); err != nil || string(res.Results[0]) != "100001" {
		t.Errorf("the length of a large array is %+v, %v", res, err)
	}
	if res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: "range(1e9)"}); err != nil || !res.Limited || len(res.Results) < 1_000 {
		t.Errorf("many results: limited %v, %v", res.Limited, err)
	}
	for _, row := range []struct{ id, query, text string }{
		{"text", ".", "is not JSON"},
		{"a", ".x.y.z[", "bad jq query"},
		{"a", `error("mine")`, "mine"},
		{"a", `"x" * 2e9 | length`, "needs too much memory"}, // in one step
	} {
		if row.text == "needs too much memory" && !limited.Memory {
			continue
		}
		_, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.query})
		if row.text == "needs too much memory" && tools.CodeOf(err) == tools.CodeToolFailed && strings.Contains(err.Error(), "has no memory left") {
			continue // with cgo, what no longer fits may be the stack of a thread
		}
		wantCode(t, err, tools.CodeInvalidArguments, row.text)
	}
	cfg.JQTime = 200 * time.Millisecond
	_, err = NewReader(store, cfg).JQ(t.Context(), "s", "a", JQQuery{Query: "last(range(1e12))"})
	wantCode(t, err, tools.CodeTimeout, "was stopped: it reached its limit of 200ms of processor time")
	if sh, err := exec.LookPath("sh"); err == nil { // a busy machine
		pool := limited.NewPool(sh, "-c", `sleep 2; exec "$@"`, sh, os.Args[0], helperCommand)
		slow := ReaderConfig{Pool: pool, JQTime: 900 * time.Millisecond}
		if res, err := NewReader(store, slow).JQ(t.Context(), "s", "a", JQQuery{Query: "."}); err != nil || len(res.Results) != 2 {
			t.Errorf("a process that starts slowly: %+v, %v", res, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.JQ(ctx, "s", "a", JQQuery{Query: "."}); !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose context has ended: %v", err)
	}
	cfg.Pool = limited.NewPool(os.Args[0] + ".none")
	if _, err := NewReader(store, cfg).JQ(t.Context(), "s", "a", JQQuery{Query: "."}); tools.CodeOf(err) != tools.CodeToolFailed {
		t.Errorf("without the program: %v", err)
	}
}

// Large documents and rows have the results of jq itself.
func TestJQOfLargeDocuments(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	var doc, rows strings.Builder
	doc.WriteString(`{"meta":{"total":9000,"next":null},"items":[`)
	for i := range 9_000 {
		row := fmt.Sprintf(`{"id":%d,"name":"user %d","tags":["a","b%d"],"text":"%s"}`, i, i, i%7, strings.Repeat("x", 1100))
		if i > 0 {
			doc.WriteByte(',')
		}
		doc.WriteString(row)
		rows.WriteString(row + "\n")
	}
	doc.WriteString(`],"last":[3,1,2]}`)
	items := doc.String()[strings.Index(doc.String(), "["):]
	items = items[:strings.Index(items, `],"last"`)+1]
	if doc.Len() < 8<<20+1<<20 {
		t.Fatal("the document is not large")
	}
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "doc", []byte(doc.String()))
	putArtifact(t, store, "s", "items", []byte(items))
	putArtifact(t, store, "s", "rows", []byte(rows.String()))
	r := NewReader(store, ReaderConfig{JQTime: time.Minute})
	for _, row := range []struct{ id, query, want string }{
		{"doc", ".meta", `{"total":9000,"next":null}`},
		{"doc", ".items | length", "9000"},
		{"doc", ".items[8999].name", `"user 8999"`},
		{"doc", ".items[2:4] | map(.id)", "[2,3]"},
		{"doc", "keys", `["items","last","meta"]`},
		{"doc", ".items[] | select(.id < 3) | .name", `"user 0" "user 1" "user 2"`},
		{"doc", "[.items[].tags[1]] | group_by(.) | map({tag: .[0], n: length}) | .[0]", `{"tag":"b0","n":1286}`},
		{"doc", ".meta.total, .meta.next", "9000 null"}, // in memory
		{"items", "map(.id) | add", "40495500"},
		{"rows", "select(.id == 8000) | .name", `"user 8000"`},
		{"rows", "[.[] | select(.id > 8997) | .id]", "[8998,8999]"},
		{"rows", ".[3].id", "3"},
		{"rows", "reduce (., inputs) as $x (0; . + 1)", "9000"},
	} {
		res, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.query})
		if err != nil {
			t.Errorf("jq %q of %s: %v", row.query, row.id, err)
			continue
		}
		var got []string
		for _, result := range res.Results {
			got = append(got, string(result))
		}
		if got := strings.Join(got, " "); got != row.want || res.Limited {
			t.Errorf("jq %q of %s is %.300s, want %s", row.query, row.id, got, row.want)
		}
	}
	for _, row := range []struct{ id, query, text string }{
		{"doc", ".items.x", "expected an object"},
		{"doc", ".meta[]|.x", "expected an object"},
		{"doc", ".meta.total[]", "cannot iterate over: number"},
		{"doc", ".none[]", "cannot iterate over: null"},
		{"doc", ".items", "an array of 9000 elements"},
		{"items", "group_by(", "bad jq query"},
	} {
		_, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.query})
		wantCode(t, err, tools.CodeInvalidArguments, row.text)
	}
	// The results continue.
	first, err := r.JQ(t.Context(), "s", "items", JQQuery{Query: ".[].id"})
	if err != nil || !first.Limited {
		t.Fatalf("%d results, %v", len(first.Results), err)
	}
	second, err := r.JQ(t.Context(), "s", "items", JQQuery{Query: ".[].id", Cursor: first.NextCursor})
	if err != nil || string(second.Results[0]) != fmt.Sprint(len(first.Results)) || !strings.Contains(second.Text(), fmt.Sprintf("have the first %d results", len(first.Results))) {
		t.Errorf("the results continue at %.50s, %v, %v", second.Results, second.Notes, err)
	}
	// A query that stops at its timeout has the results so far.
	var slow *JQResult
	limit := 50 * time.Millisecond
	for err = errors.New("none"); err != nil && limit < 20*time.Second; limit *= 3 { // a slow machine needs longer for the first result
		slow, err = NewReader(store, ReaderConfig{JQTime: limit}).JQ(t.Context(), "s", "rows", JQQuery{Query: "select(.id == 3 or ([range(300)] | length) == 0)"})
	}
	if err != nil || len(slow.Results) != 1 || !strings.Contains(slow.Text(), "was stopped: ") {
		t.Errorf("a slow query gives %+v, %v", slow, err)
	}
}

// A query of a large artifact that its timeout stops says what to use instead.
func TestJQStopped(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "rows", rowsOf(9_000_000, "text"))
	for _, query := range []string{"sort_by(.score), (range(1e12) | empty)", ".[] | range(1e12) | empty"} { // never end in time
		_, err := NewReader(store, ReaderConfig{JQTime: time.Millisecond}).JQ(t.Context(), "s", "rows", JQQuery{Query: query})
		wantCode(t, err, tools.CodeTimeout, "was stopped: it reached its limit of 1ms of processor time. It had searched ")
		wantCode(t, err, tools.CodeTimeout, "Use sql_knowledge")
	}
	r := NewReader(store, ReaderConfig{})
	for _, from := range []string{"at99999999999+0", "at5+-1", "5"} {
		_, err := r.JQ(t.Context(), "s", "rows", JQQuery{Query: ".[].id", Cursor: from})
		wantCode(t, err, tools.CodeInvalidArguments, "not one that an answer")
	}
}

// A table is an array of objects. A query about a row runs on each row.
func TestJQOfTables(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	put := func(id, media, text string) {
		_, err := store.Put(t.Context(), Record{Artifact: tools.Artifact{ID: id}, Session: "s"}, strings.NewReader(text), func(rec *Record, _ Content) error {
			rec.MediaType = media
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("csv", mediaCSV, "\uFEFFname,city,age\r\n\"Doe, J\",Paris,3\nAnn,\"New\nYork\",5\nBob,Paris,7,extra\n")
	put("tsv", mediaTSV, "name\tcity\nAnn\tRome\n")
	put("odd", mediaCSV, "id,ID, n \n1,2,3\n4,5,6\n\n7,8\n")
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	for _, row := range []struct{ id, query, want string }{
		{"csv", "length", "3"},
		{"csv", ".[0].name", `"Doe, J"`},
		{"csv", `.[] | select(.city == "Paris") | .name`, `"Doe, J" "Bob"`},
		{"csv", `select(.city == "Paris") | .age`, `"3" "7"`},
		{"csv", ".name", `"Doe, J" "Ann" "Bob"`},
		{"csv", "map(.age | tonumber) | add", "15"},
		{"csv", "group_by(.city) | map({city: .[0].city, n: length})", `[{"city":"New\nYork","n":1},{"city":"Paris","n":2}]`},
		{"csv", `.[2].c4`, `"extra"`},
		{"csv", `.[:2][] | [.[]] | @csv`, `"\"Doe, J\",\"Paris\",\"3\"" "\"Ann\",\"New\nYork\",\"5\""`},
		{"csv", `.[0] | to_entries | map(.value)`, `["Doe, J","Paris","3"]`},
		{"csv", `.[0] | keys_unsorted, map(length), (with_entries(.value |= length) | keys)`, `["name","city","age"] [6,5,1] ["age","city","name"]`},
		{"tsv", ".", `{"name":"Ann","city":"Rome"}`},
	} {
		res, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.query})
		if err != nil {
			t.Errorf("jq %q of %s: %v", row.query, row.id, err)
			continue
		}
		var got []string
		for _, result := range res.Results {
			got = append(got, string(result))
		}
		if got := strings.Join(got, " "); got != row.want {
			t.Errorf("jq %q of %s is %s, want %s", row.query, row.id, got, row.want)
		}
	}
	// jq calls the columns as SQL and the preview do, and has the same notes about the rows.
	ofJQ, err := r.JQ(t.Context(), "s", "odd", JQQuery{Query: "map(.ID_2, .n)"})
	if err != nil || string(ofJQ.Results[0]) != `["2","3","5","6","8",null]` || len(ofJQ.Notes) != 3 {
		t.Errorf("%v, %v", ofJQ, err)
	}
	ofSQL, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT ID_2, n FROM odd"})
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range ofJQ.Notes {
		if !slices.Contains(ofSQL.Notes, "odd: "+note) {
			t.Errorf("SQL has the notes %q, and not %q of jq", ofSQL.Notes, note)
		}
	}
}

// A byte order mark does not hide JSON. The bound of the heap is that of the process, so no other test may run meanwhile.
func TestJQAfterAByteOrderMark(t *testing.T) {
	for _, text := range []string{"{\"a\":1}", "{\"a\":1}\r\n{\"a\":2}\r\n", "[" + strings.Repeat(`{"a":1},`, 1<<18) + `{"a":1}]`} {
		store := newFakeStore(StoreConfig{})
		rec := Record{Artifact: tools.Artifact{ID: "a"}, Session: "s"}
		rec, err := store.Put(t.Context(), rec, strings.NewReader("\ufeff"+text), summarize(t.Context()))
		if err != nil || !rec.queryable() || !strings.Contains(rec.Summary, `"a":1`) {
			t.Errorf("%.20q: %s %s %.100s, %v", text, rec.Type, rec.MediaType, rec.Summary, err)
		}
		query := ".a"
		if text[0] == '[' {
			query = ".[7].a"
		}
		res, err := NewReader(store, ReaderConfig{}).JQ(t.Context(), "s", "a", JQQuery{Query: query})
		if err != nil || string(res.Results[0]) != "1" {
			t.Errorf("%.20q: %+v, %v", text, res, err)
		}
	}
}

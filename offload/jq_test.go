package offload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
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
		"input":                   "bad jq query",
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
		wantCode(t, err, tools.CodeTimeout, "took longer than 200ms")
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
	cfg := ReaderConfig{JQCommand: []string{os.Args[0], jqTestCommand}, JQTime: time.Minute}
	if env, err := exec.LookPath("env"); err == nil { // the race detector waits a second at each exit
		cfg.JQCommand = append([]string{env, "GORACE=atexit_sleep_ms=0"}, cfg.JQCommand...)
	}
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
		wantCode(t, err, tools.CodeInvalidArguments, row.text)
	}
	cfg.JQTime = 200 * time.Millisecond
	_, err = NewReader(store, cfg).JQ(t.Context(), "s", "a", JQQuery{Query: "last(range(1e12))"})
	wantCode(t, err, tools.CodeTimeout, "took longer than 200ms")
	if sh, err := exec.LookPath("sh"); err == nil { // a busy machine
		slow := ReaderConfig{JQCommand: append([]string{sh, "-c", `sleep 2; exec "$@"`, sh}, cfg.JQCommand...), JQTime: 900 * time.Millisecond}
		if res, err := NewReader(store, slow).JQ(t.Context(), "s", "a", JQQuery{Query: "."}); err != nil || len(res.Results) != 2 {
			t.Errorf("a process that starts slowly: %+v, %v", res, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.JQ(ctx, "s", "a", JQQuery{Query: "."}); !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose context has ended: %v", err)
	}
	cfg.JQCommand = []string{os.Args[0] + ".none"}
	if _, err := NewReader(store, cfg).JQ(t.Context(), "s", "a", JQQuery{Query: "."}); tools.CodeOf(err) != tools.CodeToolFailed {
		t.Errorf("without the program: %v", err)
	}
}

// Large documents are read in parts, with the results of jq itself.
func TestJQOfLargeDocuments(t *testing.T) {
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
		{"doc", ".meta.total", "9000"},
		{"doc", ".meta", `{"total":9000,"next":null}`},
		{"doc", ".items | length", "9000"},
		{"doc", ".items[8999].name", `"user 8999"`},
		{"doc", ".items[2:4] | map(.id)", "[2,3]"},
		{"doc", ".items[-2:] | map(.id)", "[8998,8999]"},
		{"doc", ".items[-1].id", "8999"},
		{"doc", ".items[99999]", "null"},
		{"doc", "keys", `["items","last","meta"]`},
		{"doc", "length", "3"},
		{"doc", ".last", "[3,1,2]"},
		{"doc", ".last | sort", "[1,2,3]"},
		{"doc", "[.items[] | select(.id < 3) | .name]", `["user 0","user 1","user 2"]`},
		{"doc", ".items | map(select(.id == 7000)) | .[0].tags", `["a","b0"]`},
		{"doc", "first(.items[] | select(.name == \"user 9\")) | .id", "9"},
		{"doc", "reduce .items[] as $x (0; . + $x.id)", "40495500"},
		{"doc", "[.items[].tags[1]] | group_by(.) | map({tag: .[0], n: length}) | .[0]", `{"tag":"b0","n":1286}`},
		{"doc", "{n: [.items[] | select(.id > 8990)] | length}", `{"n":9}`},
		{"doc", ".items | any(.id == 5)", "true"},
		{"doc", ".none", "null"},
		{"doc", ".none.x", "null"},
		{"doc", ".meta.total, .meta.next", "9000 null"},
		{"items", "length", "9000"},
		{"items", ".[5].id", "5"},
		{"items", "map(.id) | add", "40495500"},
		{"items", "last | .id", "8999"},
		{"items", "limit(2; .[] | .id)", "0 1"},
		{"items", ".[0] | keys", `["id","name","tags","text"]`},
		{"items", "[.[] | .tags[1]] | unique | length", "7"},
		{"rows", "select(.id == 8000) | .name", `"user 8000"`},
		{"rows", "[.[] | select(.id > 8997) | .id]", "[8998,8999]"},
		{"rows", ".[3].id", "3"},
		{"rows", "map(.id) | max", "8999"},
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
		{"doc", ".meta.total[]", "cannot iterate over a number"},
		{"doc", ".none[]", "cannot iterate over null"},
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
	if err != nil || string(second.Results[0]) != fmt.Sprint(len(first.Results)) {
		t.Errorf("the results continue at %.50s, %v", second.Results, err)
	}
	// A query that stops at its timeout has the results so far.
	var slow *JQResult
	limit := 50 * time.Millisecond
	for err = errors.New("none"); err != nil && limit < 20*time.Second; limit *= 3 { // a slow machine needs longer for the first result
		slow, err = NewReader(store, ReaderConfig{JQTime: limit}).JQ(t.Context(), "s", "rows", JQQuery{Query: "select(.id == 3 or ([range(300)] | length) == 0)"})
	}
	if err != nil || len(slow.Results) != 1 || !strings.Contains(slow.Text(), "was stopped after ") {
		t.Errorf("a slow query gives %+v, %v", slow, err)
	}
}

// A query of a large artifact that its timeout stops continues with the offset of its
// answer, until all rows were searched, and each result appears once.
func TestJQContinuesAfterTimeout(t *testing.T) {
	t.Parallel()
	const rows = 40_000
	var ndjson, table, doc strings.Builder
	table.WriteString("id,text\n")
	doc.WriteString(`{"meta":{"list":[1,2]},"items": [ `)
	want := 0
	for i := range rows {
		text := strings.Repeat("x", 230)
		fmt.Fprintf(&ndjson, "{\"id\":%d,\"text\":\"%s\"}\n", i, text)
		fmt.Fprintf(&table, "%d,\"%s\n\"\n", i, text)
		if i > 0 {
			doc.WriteString(" , ")
		}
		fmt.Fprintf(&doc, `{"id":%d,"text":"%s"}`, i, text)
		if i%7_000 == 3 {
			want += 2
		}
	}
	doc.WriteString(` ], "tail": [3]}`)
	store := newFakeStore(StoreConfig{})
	for id, text := range map[string]string{"rows": ndjson.String(), "table": table.String(), "doc": doc.String()} {
		if len(text) < 8<<20 {
			t.Fatal("the artifact is not large")
		}
		rec := Record{Artifact: tools.Artifact{ID: id}, Session: "s"}
		if _, err := store.Put(t.Context(), rec, strings.NewReader(text), summarize(t.Context(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ id, query string }{
		{"rows", "select(.id % 7000 == 3) | .id, -.id"},
		{"doc", ".items[] | select(.id % 7000 == 3) | .id, -.id"},
		{"table", ".[] | select((.id | tonumber) % 7000 == 3) | .id, -(.id | tonumber)"},
		{"table", "select((.id | tonumber) % 7000 == 3) | .id, -(.id | tonumber)"},
	} {
		limit := 60 * time.Millisecond
		seen, stopped, from := map[string]int{}, 0, ""
		for {
			res, err := NewReader(store, ReaderConfig{JQTime: limit}).JQ(t.Context(), "s", row.id, JQQuery{Query: row.query, Cursor: from})
			if tools.CodeOf(err) == tools.CodeTimeout && limit < 20*time.Second {
				limit *= 2 // no progress: a slow machine needs longer
				continue
			}
			if err != nil {
				t.Fatalf("%v at %s: %v", row, from, err)
			}
			for _, r := range res.Results {
				seen[strings.Trim(string(r), `"`)]++
			}
			if !res.Limited {
				break
			}
			if stopped++; res.Searched <= 0 || !strings.Contains(res.Text(), fmt.Sprintf("rows); continue with cursor=%q]", res.NextCursor)) {
				t.Fatalf("%v: %s", row, res.Text())
			}
			from = res.NextCursor
		}
		for i := 3; i < rows; i += 7_000 {
			if seen[fmt.Sprint(i)] != 1 || seen[fmt.Sprint(-i)] != 1 {
				t.Errorf("%v: result %d appears %d and %d times", row, i, seen[fmt.Sprint(i)], seen[fmt.Sprint(-i)])
			}
		}
		if len(seen) != want || stopped == 0 {
			t.Errorf("%v: %d results, want %d; stopped %d times", row, len(seen), want, stopped)
		}
	}
	r := NewReader(store, ReaderConfig{JQTime: time.Minute})
	// Too many results after a place continue at a place too.
	at := int64(strings.Index(ndjson.String(), `{"id":20000,`))
	from, next := cursor.Place{Byte: at, More: 1}.String(), 0
	for range 3 {
		res, err := r.JQ(t.Context(), "s", "rows", JQQuery{Query: ".id, .text", Cursor: from})
		if err != nil || len(res.Results) < 20 || !res.Limited {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, got := range res.Results {
			if next++; next%2 == 0 && string(got) != fmt.Sprint(20_000+next/2) {
				t.Fatalf("result %d is %s", next, got)
			}
		}
		from = res.NextCursor
	}
	for _, query := range []string{"[., inputs, (range(1e9) | empty)] | length", ".items | length, (range(1e9) | empty)"} { // never end in time
		id := map[bool]string{true: "rows", false: "doc"}[strings.HasPrefix(query, "[")]
		_, err := NewReader(store, ReaderConfig{JQTime: time.Millisecond}).JQ(t.Context(), "s", id, JQQuery{Query: query})
		wantCode(t, err, tools.CodeTimeout, "took longer than 1ms; it had ")
	}
	_, err := r.JQ(t.Context(), "s", "doc", JQQuery{Query: ".items | length", Cursor: from})
	wantCode(t, err, tools.CodeInvalidArguments, "cannot continue at a place")
	_, err = r.JQ(t.Context(), "s", "doc", JQQuery{Query: ".items[]", Cursor: "at99999999999+0"})
	wantCode(t, err, tools.CodeInvalidArguments, "not one that an answer")
}

// Numbers do not end with a byte of their own, and a query about the array of all rows
// continues with the first number that it did not show.
func TestJQContinuesAtANumber(t *testing.T) {
	t.Parallel()
	var numbers strings.Builder
	for n := 100_000; numbers.Len() < 8<<20+1<<20; n++ {
		fmt.Fprintln(&numbers, n)
	}
	r := stored(t, []byte(numbers.String()))
	from, next := cursor.Place{Byte: int64(strings.Index(numbers.String(), "500000\n"))}.String(), 500_000
	for range 3 {
		res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: ".[] | select(. > 0)", Cursor: from})
		if err != nil || !res.Limited {
			t.Fatalf("at %s: %v, %+v", from, err, res)
		}
		for _, got := range res.Results {
			if string(got) != fmt.Sprint(next) {
				t.Fatalf("got %s, want %d", got, next)
			}
			next++
		}
		from = res.NextCursor
	}
}

// A query that begins to read other rows cannot continue at a place. An offset that counts
// results from that place would be taken for one that counts them from the start.
func TestJQThatCannotContinue(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for i := 0; rows.Len() < 8<<20+1<<20; i++ {
		fmt.Fprintf(&rows, "{\"id\":%d,\"text\":\"%s\"}\n", i, strings.Repeat("x", 230))
	}
	r := stored(t, []byte(rows.String()))
	at := cursor.Place{Byte: int64(strings.Index(rows.String(), `{"id":20000,`))}
	res, err := r.JQ(t.Context(), "s", "a", JQQuery{Query: "if .id == 20010 then input else . end", Cursor: at.String()})
	if err != nil || !res.Limited || res.NextCursor != "" || !strings.Contains(res.Text(), "there are more results than shown, and this query cannot continue; narrow it") {
		t.Errorf("%v, continues at %s: %.300s", err, res.NextCursor, res.Text())
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
	r := NewReader(store, ReaderConfig{})
	for _, row := range []struct{ id, query, want string }{
		{"csv", "length", "3"},
		{"csv", ".[0].name", `"Doe, J"`},
		{"csv", `.[] | select(.city == "Paris") | .name`, `"Doe, J" "Bob"`},
		{"csv", `select(.city == "Paris") | .age`, `"3" "7"`},
		{"csv", ".name", `"Doe, J" "Ann" "Bob"`},
		{"csv", "map(.age | tonumber) | add", "15"},
		{"csv", "group_by(.city) | map({city: .[0].city, n: length})", `[{"city":"New\nYork","n":1},{"city":"Paris","n":2}]`},
		{"csv", `.[2]["4"]`, `"extra"`},
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
}

// A byte order mark does not hide JSON.
func TestJQAfterAByteOrderMark(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{\"a\":1}", "{\"a\":1}\r\n{\"a\":2}\r\n", "[" + strings.Repeat(`{"a":1},`, 1<<18) + `{"a":1}]`} {
		store := newFakeStore(StoreConfig{})
		rec := Record{Artifact: tools.Artifact{ID: "a"}, Session: "s"}
		rec, err := store.Put(t.Context(), rec, strings.NewReader("\ufeff"+text), summarize(t.Context(), nil))
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

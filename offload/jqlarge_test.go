package offload

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// rowsOf returns a JSON array of about size bytes.
func rowsOf(size int, text string) []byte {
	var doc bytes.Buffer
	for i := 0; doc.Len() < size; i++ {
		fmt.Fprintf(&doc, `,{"id":%d,"name":"user%d","city":"c%d","score":%d.25,"text":"%s"}`, i, i%5000, i%3, i*7919%100003, text)
	}
	data := append(doc.Bytes(), ']')
	data[0] = '['
	return data
}

// TestJQOfThirtyMegabytes: what needs all rows gets them, in the memory of the process.
func TestJQOfThirtyMegabytes(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "rows", rowsOf(30_000_000, "of a row"))
	cfg := ReaderConfig{JQCommand: []string{os.Args[0], jqTestCommand}, JQTime: 10 * time.Minute}
	if env, err := exec.LookPath("env"); err == nil {
		cfg.JQCommand = append([]string{env, "GORACE=atexit_sleep_ms=0"}, cfg.JQCommand...)
	}
	r := NewReader(store, cfg)
	for query, want := range map[string]string{
		"group_by(.city) | map(.[0].city)":       `["c0","c1","c2"]`,
		"unique_by(.city) | map(.id)":            "[0,1,2]",
		"sort_by(-.score) | .[0].score":          "100002.25",
		"max_by(.score) | .score":                "100002.25",
		"min_by(.score) | .id":                   "0",
		"map(.score) | max | . == 100002.25":     "true",
		"[.[] | {id, city}] | last | has(\"x\")": "false",
	} {
		res, err := r.JQ(t.Context(), "s", "rows", JQQuery{Query: query})
		if err != nil || len(res.Results) != 1 || string(res.Results[0]) != want {
			t.Errorf("jq %q is %+v, %v; want %s", query, res, err, want)
		}
	}
}

// TestJQAdviceWorks: a query that needs too much memory gets another one that works on that
// document.
func TestJQAdviceWorks(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	rows := rowsOf(70_000_000, strings.Repeat("long text ", 200))
	putArtifact(t, store, "s", "rows", rows)
	putArtifact(t, store, "s", "object", fmt.Appendf(nil, `{"meta":{"n":[1,2]},"a b":{"items":%s}}`, rows))
	r := NewReader(store, ReaderConfig{JQTime: 10 * time.Minute})
	advised := regexp.MustCompile(`as in (reduce .*), or use|or (reduce .*), or use`)
	for _, row := range []struct{ id, query, want string }{
		{"rows", "group_by(.city)", `{"c0":1`},
		{"rows", "sort_by(.score)[-1]", `[{"id":`},
		{"object", `."a b".items | group_by(.city) | map(length)`, `{"c0":1`},
		{"object", `."a b".items as $all | $all | unique_by(.city)`, `{"c0":1`},
		{"object", `."a b".items | to_entries`, "3"},
		{"object", `tojson`, "3"},
	} {
		_, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.query})
		wantCode(t, err, tools.CodeInvalidArguments, "too much memory")
		found := advised.FindStringSubmatch(fmt.Sprint(err))
		if found == nil {
			t.Errorf("jq %q: no advice in %v", row.query, err)
			continue
		}
		advice := found[1] + found[2]
		res, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: advice})
		if err != nil || len(res.Results) != 1 || !strings.HasPrefix(string(res.Results[0]), row.want) {
			t.Errorf("jq %q, advised in place of %q, is %.300v, %v; want %s", advice, row.query, res, err, row.want)
		}
	}
}

// TestJQWaitsForOthers: queries on large artifacts run one after the other, and do not wait for
// ever.
func TestJQWaitsForOthers(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "large", rowsOf(9_000_000, strings.Repeat("long text ", 200)))
	putArtifact(t, store, "s", "small", []byte("[1]"))
	r := NewReader(store, ReaderConfig{JQTime: 20 * time.Millisecond})
	r.largeJQ <- struct{}{}
	_, err := r.JQ(t.Context(), "s", "large", JQQuery{Query: "length"})
	wantCode(t, err, tools.CodeTimeout, "this one waited 20ms for them")
	r.cfg.JQTime = time.Minute
	if _, err := r.JQ(t.Context(), "s", "small", JQQuery{Query: "length"}); err != nil {
		t.Errorf("a small artifact waits for a large one: %v", err)
	}
	go func() { <-r.largeJQ }()
	if _, err := r.JQ(t.Context(), "s", "large", JQQuery{Query: "length"}); err != nil {
		t.Errorf("after the other query: %v", err)
	}
}

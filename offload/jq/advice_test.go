package jq

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAdvice: the advice names the SQL of a simple query, and where jq can read one element after
// the other.
func TestAdvice(t *testing.T) {
	for query, want := range map[string]string{
		"group_by(.city) | map(length)":  `as in SELECT "city", count(*) FROM "a" GROUP BY 1. Or let jq read one element after the other, as in .[] | select(...)`,
		".data.items | unique_by(.city)": `as in SELECT "city", count(*) FROM "a:.data.items" GROUP BY 1. Or let jq read one element after the other, as in .data.items[] | `,
		"sort_by(-.score)[:5]":           `as in SELECT * FROM "a" ORDER BY "score" DESC LIMIT 10. `,
		"max_by(.score)":                 `as in SELECT * FROM "a" ORDER BY "score" DESC LIMIT 10. `,
		`."a b"[0] | map(.city) | add`:   `as in SELECT * FROM "a" LIMIT 3. Or let jq read one element after the other, as in .["a b"][0][] | select(...)`,
		"sort_by(.a.b)":                  `SELECT * FROM "a" LIMIT 3`,
		`group_by(."x\"; --")`:           `SELECT * FROM "a" LIMIT 3`,
	} {
		if got := instead("a", query); !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", query, got, want)
		}
	}
}

// TestTooLargeForMemory: a query that needs too much of a large document at once says what to do
// instead, and that works, while paths, lengths, keys and elements of the same document work.
func TestTooLargeForMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	defer func(before int) { maxElement = before }(maxElement)
	maxElement = 1 << 20
	var doc bytes.Buffer
	doc.WriteString(`{"meta":{"n":[1,2]},"items":[`)
	n := 0
	for ; doc.Len() < Large+1000; n++ {
		fmt.Fprintf(&doc, `%s{"id":%d,"city":"c%d","text":"%s"}`, strings.Repeat(",", min(n, 1)), n, n%3, strings.Repeat("long text ", 200))
	}
	doc.WriteString("]}")
	run := func(query string) (*Result, error) {
		return Run(t.Context(), Source{ArtifactID: "a", Content: bytes.NewReader(doc.Bytes()), Size: int64(doc.Len()), Chars: 15_000, Time: 10 * time.Minute}, Query{Query: query})
	}
	for query, want := range map[string]string{
		".items | group_by(.city) | map(length)": `FROM "a:.items" GROUP BY 1. Or let jq read one element after the other, as in .items[] | select(...)`,
		"tojson":                                 `SELECT * FROM "a"`,
		".items as $x | $x | length":             `SELECT * FROM "a"`,
	} {
		if _, err := run(query); err == nil || !strings.Contains(err.Error(), "needs too much memory") || !strings.Contains(err.Error(), want) {
			t.Errorf("jq %q: %v; want %s", query, err, want)
		}
	}
	for query, want := range map[string]string{
		"keys": `["items","meta"]`, "length": "2", ".meta": `{"n":[1,2]}`, ".items | length": fmt.Sprint(n),
		".items[1000].id": "1000", ".items[-1].id": fmt.Sprint(n - 1), ".items[2:4] | map(.id)": "[2,3]", ".items[] | select(.id == 77) | .city": `"c2"`,
		"[.items[] | .city] | group_by(.) | map(.[0])": `["c0","c1","c2"]`, ".items | map(.id) | max": fmt.Sprint(n - 1),
	} {
		if res, err := run(query); err != nil || len(res.Results) != 1 || string(res.Results[0]) != want {
			t.Errorf("jq %q is %v, %v; want %s", query, res, err, want)
		}
	}
}

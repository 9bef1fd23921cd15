package jq

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAdviceOfSQL: the advice names the SQL of a simple query.
func TestAdviceOfSQL(t *testing.T) {
	for query, want := range map[string]string{
		"group_by(.city) | map(length)":  `SELECT "city", count(*) FROM "a" GROUP BY 1. Or: `,
		".data.items | unique_by(.city)": `SELECT "city", count(*) FROM "a:.data.items" GROUP BY 1. Or: `,
		"sort_by(-.score)[:5]":           `SELECT * FROM "a" ORDER BY "score" DESC LIMIT 10. Or: `,
		"max_by(.score)":                 `SELECT * FROM "a" ORDER BY "score" DESC LIMIT 10. Or: `,
		"map(.city)":                     "", "sort_by(.a.b)": "", `group_by(."x\"; --")`: "", "tojson": "",
	} {
		if got := sqlFor("a", query); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %s; want %s", query, got, want)
		}
	}
}

// TestAdviceWorks: a query that needs too much memory gets another one that works on that
// document.
func TestAdviceWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	defer func(before int) { maxElement = before }(maxElement)
	maxElement = 1 << 20
	var doc bytes.Buffer
	for i := 0; doc.Len() < Large+1000; i++ {
		fmt.Fprintf(&doc, `,{"id":%d,"city":"c%d","score":%d.25,"text":"%s"}`, i, i%3, i*7919%100003, strings.Repeat("long text ", 200))
	}
	rows := append(doc.Bytes(), ']')
	rows[0] = '['
	object := fmt.Appendf(nil, `{"meta":{"n":[1,2]},"a b":{"items":%s}}`, rows)
	advised := regexp.MustCompile(`as in (reduce .*), or use|or (reduce .*), or use`)
	for _, row := range []struct {
		text        []byte
		query, want string
	}{
		{rows, "group_by(.city)", `{"c0":1`},
		{rows, "sort_by(.score)[-1]", `[{"id":`},
		{object, `."a b".items | group_by(.city) | map(length)`, `{"c0":1`},
		{object, `."a b".items as $all | $all | unique_by(.city)`, `{"c0":1`},
		{object, `."a b".items | to_entries`, "4"},
		{object, `tojson`, "4"},
	} {
		run := func(query string) (*Result, error) {
			return Run(t.Context(), Source{Content: bytes.NewReader(row.text), Size: int64(len(row.text)), Chars: 15_000, Time: 10 * time.Minute}, Query{Query: query})
		}
		_, err := run(row.query)
		found := advised.FindStringSubmatch(fmt.Sprint(err))
		if found == nil || !strings.Contains(err.Error(), "too much memory") {
			t.Errorf("jq %q: no advice in %v", row.query, err)
			continue
		}
		advice := found[1] + found[2]
		res, err := run(advice)
		if err != nil || len(res.Results) != 1 || !strings.HasPrefix(string(res.Results[0]), row.want) {
			t.Errorf("jq %q, advised in place of %q, is %.300v, %v; want %s", advice, row.query, res, err, row.want)
		}
	}
}

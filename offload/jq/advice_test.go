package jq

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload/describe"
)

// TestAdvice: the advice names the SQL that answers a query, or shows what it is about.
func TestAdvice(t *testing.T) {
	for query, want := range map[string]string{
		"group_by(.city) | map(length)":           `SELECT "city", count(*) FROM "a" GROUP BY 1`,
		".data.items | unique_by(.city)":          `SELECT "city", count(*) FROM "a:.data.items" GROUP BY 1`,
		"sort_by(-.score)[:5]":                    `SELECT * FROM "a" ORDER BY "score" DESC LIMIT 10`,
		"max_by(.score)":                          `SELECT * FROM "a" ORDER BY "score" DESC LIMIT 10`,
		"length":                                  `SELECT count(*) FROM "a"`,
		".items | length":                         `SELECT count(*) FROM "a:.items"`,
		`.items[] | select(.city == "Rome") | .n`: `SELECT * FROM "a:.items" WHERE "city" = 'Rome' LIMIT 10`,
		".[] | select(.n > 5)":                    `SELECT * FROM "a" WHERE "n" > 5 LIMIT 10`,
		"map(select(.n != -1.5)) | length":        `SELECT * FROM "a" WHERE "n" != -1.5 LIMIT 10`,
		`.[] | select(.n == "it's")`:              `SELECT * FROM "a" LIMIT 3`,
		"[.items[].name]":                         `SELECT * FROM "a:.items" LIMIT 3`,
		`."a b"[0] | map(.city) | add`:            `SELECT * FROM "a" LIMIT 3`,
		"sort_by(.a.b)":                           `SELECT * FROM "a" LIMIT 3`,
		`group_by(."x\"; --")`:                    `SELECT * FROM "a" LIMIT 3`,
	} {
		if got := sqlFor("a", query); got != want {
			t.Errorf("%s: %s; want %s", query, got, want)
		}
	}
}

// TestTooLargeToLoad: of an artifact that is too large, rows are read one by one. A query that needs
// all of it at once, and each query of one document, says which SQL answers it.
func TestTooLargeToLoad(t *testing.T) {
	defer func(before int) { maxDocument = before }(maxDocument)
	maxDocument = 1 << 20
	var rows strings.Builder
	n := 0
	for ; rows.Len() < maxDocument+1000; n++ {
		fmt.Fprintf(&rows, `{"id":%d,"city":"c%d","text":"%s"}`+"\n", n, n%3, strings.Repeat("long text ", 200))
	}
	document := `{"meta":1,"items":[` + strings.ReplaceAll(strings.TrimSpace(rows.String()), "\n", ",") + "]}"
	table := "id,text\n" + strings.Repeat("1,"+strings.Repeat("x", 100)+"\n", maxDocument/100)
	run := func(text string, comma rune, query string) (*Result, error) {
		var form *describe.Form
		if comma != 0 {
			found := describe.Table([]byte(text), false, describe.Hints{Comma: comma})
			form = &found
		}
		return Run(t.Context(), Source{
			ArtifactID: "a", Content: strings.NewReader(text), Size: int64(len(text)), Form: form, Chars: 15_000, CPU: 10 * time.Minute,
		}, Query{Query: query})
	}
	for _, row := range []struct {
		text  string
		comma rune
		query string
		want  string
	}{
		{document, 0, ".items | group_by(.city) | map(length)", `as in SELECT "city", count(*) FROM "a:.items" GROUP BY 1`},
		{document, 0, ".meta", `SELECT * FROM "a:.meta" LIMIT 3`},
		{rows.String(), 0, "group_by(.city)", `SELECT "city", count(*) FROM "a" GROUP BY 1`},
		{table, ',', "map(.id)", `SELECT * FROM "a" LIMIT 3`},
	} {
		_, err := run(row.text, row.comma, row.query)
		if err == nil || !strings.Contains(err.Error(), "jq loads at most 1 MiB at a time") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("jq %q: %v; want %s", row.query, err, row.want)
		}
	}
	for _, row := range []struct {
		text  string
		comma rune
		query string
		want  string
	}{
		{rows.String(), 0, "select(.id == 77) | .city", `"c2"`},
		{rows.String(), 0, "reduce (., inputs) as $x (0; . + 1)", fmt.Sprint(n)},
		{table, ',', `select(.id == "2")`, ""},
		{rows.String(), 0, "length", fmt.Sprint(n)},
		{table, ',', "length", fmt.Sprint(maxDocument / 100)},
	} {
		res, err := run(row.text, row.comma, row.query)
		if err != nil || len(res.Results) > 1 || len(res.Results) == 1 && string(res.Results[0]) != row.want {
			t.Errorf("jq %q is %v, %v; want %s", row.query, res, err, row.want)
		}
	}
}

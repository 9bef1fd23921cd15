package offload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Questions about all rows get one answer, not one for each row, and cells that a query
// takes for numbers do not give a wrong answer without a note.
func TestJQOfAllRows(t *testing.T) {
	t.Parallel()
	var rows, table strings.Builder
	table.WriteString("id;amount\r\n")
	for i := range 5_000 {
		fmt.Fprintf(&rows, `{"id":%d,"kind":"k"}`+"\n", i)
		fmt.Fprintf(&table, "%d;%d\r\n", i, i%10)
	}
	for _, row := range []struct{ text, query, want, note string }{
		{rows.String(), "length", "5000", "the number of rows"},
		{rows.String(), "keys", `["id","kind"]`, "the keys of the first row"},
		{rows.String(), ".[4999].id", "4999", ""},
		{table.String(), "length", "5000", "the number of rows"},
		{table.String(), "keys", `["amount","id"]`, "the keys of the first row"},
		{table.String(), ".[4999].id", `"4999"`, ""},
		{table.String(), `select(.id? == "4999") | .amount?`, `"9"`, ""},
		{table.String(), `select((try .id) == "4999") | .amount`, `"9"`, ""},
		{table.String(), `select((try .id catch "x") == "4999") | .amount`, `"9"`, ""},
		{"id,v\n1,n/a\n" + strings.Repeat("2,3\n", 20) + "3,4\n", `select((.v | tonumber)? == 4) | .id`, `"3"`, ""},
		{table.String(), "[.[].id?] | length", "5000", ""},
		{table.String(), "[., inputs] | length", "5000", "inputs has the rows behind the first one"},
		{`[{"id":1},{"id":2}]`, "[inputs]", "[]", ""},
		{"{}\n" + rows.String(), "map(.id) | length", "5001", ""},
		{rows.String(), "[.[].id?] | length", "5000", ""},
		{rows.String(), "select(.id? == 4999) | .kind", `"k"`, ""},
		{table.String(), `map(select(.amount > 8)) | length`, "5000", `.amount > 8 compares "0" with 8`},
		{table.String(), `map(select((.amount | tonumber) > 8)) | length`, "500", ""},
		{`{"runs":[{"ms":"10"},{"ms":"9"}]}`, `[.runs[]|select(.ms > 9)]|length`, "2", `.ms > 9 compares "10" with 9`},
		{`[{"t":{"ms":"10"}},{"t":{"ms":"9"}}]`, `max_by(.t.ms).t.ms`, `"9"`, `max_by sorts strings such as "9"`},
		{`[{"ms":"10"},{"ms":"9"}]`, `sort_by(.ms|tonumber)|.[0].ms`, `"9"`, ""},
		{`[{"ms":10,"name":"9"},{"ms":9,"name":"x"}]`, `map(select(.ms > 9 and .name != "y"))|length`, "1", ""},
	} {
		c := stored(t, []byte(row.text))
		res, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: row.query})
		if err != nil || len(res.Results) != 1 || string(res.Results[0]) != row.want || !strings.Contains(strings.Join(res.Notes, " "), row.note) || (row.note == "") != (len(res.Notes) == 0) {
			t.Errorf("jq %q: %v, %s, want %s and the note %q", row.query, err, tools.Excerpt(fmt.Sprint(res), 300), row.want, row.note)
		}
	}
	long := strings.Repeat(`{"n":1,"text":"`+strings.Repeat("x", 1000)+"\"}\n", 9_000)
	c := stored(t, []byte(long+"{\"n\":\n"+long))
	if res, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: "length"}); err != nil || !strings.Contains(res.Text(), "\n18000\n") || !strings.Contains(res.Text(), "without the 1 lines") {
		t.Errorf("rows with a broken one behind 8 MiB: %v, %v", res, err)
	}
	c = stored(t, []byte(strings.Repeat(`{"a":{"x":1}}`+"\n", 3)+`{"a":3}`))
	if res, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: "map(.x)"}); err == nil {
		t.Errorf("a query about each row, of which one is odd: %v", res)
	}
	c = stored(t, []byte(table.String()))
	if _, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: "map(.amount * .id)"}); err == nil {
		t.Error("the product of two strings is no error")
	}
	c = stored(t, []byte("a,b\n"+strings.Repeat("1234567,2\n", 5_000)))
	if _, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: "map(.a) | add"}); err == nil || !strings.Contains(err.Error(), "tonumber") {
		t.Errorf("the sum of strings: %v", err)
	}
	c = stored(t, []byte(rows.String()))
	res, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: `select(.kind == "k")`})
	if err != nil || !strings.HasPrefix(res.Text(), "Found at least ") {
		t.Errorf("a list that is cut: %v\n%s", err, tools.Excerpt(res.Text(), 200))
	}
}

// JSON values one after the other are rows for jq, also if they are long or indented.
func TestKindsOfRows(t *testing.T) {
	t.Parallel()
	long := `{"text":"` + strings.Repeat("x", 100_000) + `"}` + "\n"
	huge := `{"text":"` + strings.Repeat("x", 1_100_000) + `"}` + "\n"
	for name, row := range map[string]struct{ text, media string }{
		"indented":        {strings.Repeat("{\n  \"a\": [1]\n}\n", 2_000), mediaNDJSON},
		"long rows":       {strings.Repeat(long, 3), mediaNDJSON},
		"many long rows":  {strings.Repeat(long, 30), mediaNDJSON},
		"huge rows":       {strings.Repeat(huge, 2), mediaNDJSON},
		"log in brackets": {strings.Repeat("[1] start\n[2] end\n", 500), mediaText},
		"numbers":         {strings.Repeat("1\n2\n", 500), mediaText},
		"broken at last":  {strings.Repeat("{\"a\":1}\n", 500) + "oops", mediaLog},
		"log with rows":   {strings.Repeat("10:00 INFO {\"a\":1}\n", 500), mediaLog},
		"text, then JSON": {"Fetching...\n{\n" + strings.Repeat("  \"a\": [1],\n", 50_000) + "  \"b\": 1\n}\n", mediaLog},
		"semicolons":      {"a;b\n" + strings.Repeat("1;x,y\n", 50), mediaCSV},
		"empty objects":   {strings.Repeat("a := map[string]any{}\nuse(a)\n", 500), mediaText},
		"code":            {strings.Repeat("let a = 1;\nlet b = 2;\n", 50), mediaText},
	} {
		rec := Record{}
		if err := summarize(t.Context())(&rec, contentOf(t, []byte(row.text))); err != nil || rec.MediaType != row.media {
			t.Errorf("%s: %v, %s, want %s", name, err, rec.MediaType, row.media)
		}
	}
}

// If the description of rows takes too long, the number of lines is exact all the same.
func TestShapeCountsTheLinesOfRows(t *testing.T) {
	defer func(before time.Duration) { shapeTime = before }(shapeTime)
	shapeTime = 1
	for name, row := range map[string]struct{ text, want string }{
		"one row in a line": {strings.Repeat(`{"a":1}`+"\n", 20_000), "20000 lines, each a row of JSON of the shape "},
		"without newline":   {strings.Repeat(`{"a":1}`+"\n", 20_000) + `{"a":1}`, "20001 lines, each a row of JSON of the shape "},
		"indented":          {strings.Repeat("{\n\"a\":1\n}\n", 20_000), "2047+ rows of JSON, each of the shape {a: number}"},
	} {
		rec := Record{}
		if err := summarize(t.Context())(&rec, contentOf(t, []byte(row.text))); err != nil || !strings.HasPrefix(rec.Summary, row.want) {
			t.Errorf("%s: %v\n%s\nwant %s", name, err, tools.Excerpt(rec.Summary, 200), row.want)
		}
	}
}

// TestJQOfALargeValueInALog: a value that is larger than the start of the text, by which jq
// decides, is one row.
func TestJQOfALargeValueInALog(t *testing.T) {
	rows := strings.Repeat("    {\n      \"id\": 1\n    },\n", 400_000)
	c := stored(t, []byte("INFO answer:\n{\n  \"items\": [\n"+rows+"    {}\n  ]\n}\nINFO end\n"))
	res, err := c.JQ(t.Context(), "s", "a", JQQuery{Query: ".items | length"})
	if err != nil || len(res.Results) != 1 || string(res.Results[0]) != "400001" {
		t.Errorf("%+v, %v", res, err)
	}
}

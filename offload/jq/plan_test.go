package jq

import (
	"strings"
	"testing"
)

// The plan gives the same results as the query.
func TestPlans(t *testing.T) {
	doc := `{"a":{"b":[1,{"c":[5,6]},null,"x"],"n":null},"l":[],"s":"text"}`
	for _, query := range []string{
		".", ".a", ".a.b", ".a.b[]", ".a.b[1].c[]", ".a[]", ".[]", "keys", "length", ".a|keys", ".a.b|length", ".s|length", ".a.n", ".a.n|length",
		".a.b|map(type)", "[.a.b[]|type]|unique", ".a.b[1:3]", ".a.b[:2]", ".a.b[-2:]", ".a.b[-1]", ".a.b[-9]", ".a.b[9]", ".l|add", ".a.b|first", ".a.b|last", ".l|first",
		".a.b|.[]", ".a|.b|.[1]|.c|.[0]", ".a.b[]?", ".s[]?", ".a,.s", "[.a.b[]]|length", "{x:.a.b|length}", "first(.a.b[])", "limit(2;.a.b[])", "isempty(.l[])",
		"any(.a.b[]; . == 1)", ".a.b|any", ".a.b|all(. != 7)", "reduce .a.b[] as $x (0;.+1)", ".a.b|to_entries|length", "map_values(type)", "1", `"x"`, "empty", "null",
		".a as $x | .s", ".a.b|sort_by(type)", `.["a"].b[0]`, `.["a"]["b"][]`, `.["a"].b | length`, `.["a"+"x"]`, `.["a"|.]`, "..|numbers", ".a|length", "(.a.b)[0]", ".a.b|nth(1)", "try error(\"x\") catch .", ".a//1", ".zz//1", "if .a then 1 else 2 end",
		"[range(3)]", ".a.b|index(1)", "path(..)", "del(.a)", ".a.b |= length", "tojson|length", "add", "def f: .a; f", ".a.b | .[1:] | length", "getpath([\"a\",\"b\",0])", "@json",
		".a|map(type)", ".l|map(.x)", "[.a.b[]|type]|length", "[.a.b[]|1][0]", ".a.b[1]?", ".a.b[0:0]", ".a.b[5:7]", ".a.b[1:2]|.[0]", ".a.b[-3:-1]", ".a.b[2:]", "(.a|.b)[0]", "[.s[]]", "[.s[]?]", "map(.)",
		".a.b|(map(type)|unique)", ".a|keys|length", ".a.b|keys[0]", ".a|[.b[]|1]|add", "[[.a.b[]|1]|add]", ".s[0:2]", ".a|.[]|type", ".a[\"b\"]|map(1)|length", ".zz|map(1)", ".zz[1:2]", "[.l[]]", ".l|length,1",
		".a.b|max", ".a.b|min", ".l|max", ".l|min_by(.x)", ".s|max", ".a|max", ".a.n|min", ".a.b|max_by(type)", ".a.b|min_by(type)", "[.a.b|max_by(type,.)]",
	} {
		want, wantErr := resultsOf(t, doc, query, false)
		got, err := resultsOf(t, doc, query, true)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("jq %q: planned %q, %v; want %q, %v", query, got, err, want, wantErr)
		}
	}
}

// TestLogs: the values in the lines of a text are rows, also after a line of text.
func TestLogs(t *testing.T) {
	for _, row := range []struct{ text, query, want string }{
		{"Fetching...\n{\"n\":1,\"l\":[1,2]}\n", ".l | length", "2"},
		{"2026-01-02 INFO start\n{\"n\":1}\r\n[2026] no\n10:00 WARN {\"n\":2}\nthe end {\n", ".n", "1 2"},
		{"{\"n\":1}\n{\"n\":2}\npanic: x\n{\"n\":4}", ".n", "1 2 4"},
		{"text\n[1,[2]]", ".[1]", "[2]"},
		{"INFO answer:\n{\n  \"n\": 1,\n  \"l\": [\n    {\"n\": 3}\n  ]\n}\nINFO {\n  \"n\": 2\n}\r\nend", ".n", "1 2"},
		{"text\n  [\n  {\"n\": 1},\n  {\"n\": 2}\n]", "map(.n)", "[1,2]"},
		{"text {\n{\"n\": 1}\n{ \n", ".n", "1"},
		{"text\n[\n{\n\"n\": 1\n},\n{\"n\": 2}\n", ".n", "2"},
	} {
		if got, err := resultsOf(t, row.text, row.query, false); err != nil || got != row.want {
			t.Errorf("jq %q of %q is %q, %v; want %q", row.query, row.text, got, err, row.want)
		}
	}
	for _, text := range []string{"just text", "text {", `{"a":1`, `{"a":1} x`} {
		if got, err := resultsOf(t, text, ".", false); err == nil {
			t.Errorf("%q gives %s", text, got)
		}
	}
}

func resultsOf(t *testing.T, doc, query string, planned bool) (string, error) {
	t.Helper()
	r := &runner{ctx: t.Context(), keys: newKeyOrder(), left: 1 << 20, request: request{Query: query, Size: int64(len(doc))}, res: &Result{}}
	var err error
	if planned {
		err = r.document(strings.NewReader(doc))
	} else {
		err = r.run(strings.NewReader(doc))
	}
	var all []string
	for _, res := range r.res.Results {
		all = append(all, string(res))
	}
	return strings.Join(all, " "), err
}

package jq

import (
	"strings"
	"testing"
)

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
		{"{\"n\":1}\n{\"n\":2}\n{\"n\":", ".n", "1 2"},
		{"{\n\"n\": 1\n}\n{\n\"a\": {\"n\": 3}\n", ".n", "1"},
		{"{\"n\":1}\n{\n  \"a\": [\n    {\"n\": 3}\n", ".n", "1"},
		{"{\"n\":1}\n{\"n\":\n{\"n\":3}\n", ".n", "1 3"},
		{"[1,{\"n\":1}]\n[2,{\"n\":2}\n[3,{\"n\":3}]\n[4,{\"n\":4}", ".[0]", "1 3"},
		{"[INFO] {\"n\":1}\n[\"a\"] {\"n\":2}\n", ".n", "1 2"},
		{"[1]\r\n[2,\r\n[3]", ".[0]", "1 3"},
		{"{\n\"n\": 1\n}\n{\n\"n\":\n{\n\"n\": 3\n}\n", ".n", "1 3"},
	} {
		if got, err := resultsOf(t, row.text, row.query); err != nil || got != row.want {
			t.Errorf("jq %q of %q is %q, %v; want %q", row.query, row.text, got, err, row.want)
		}
	}
	for _, text := range []string{"just text", "text {", `{"a":1`, `{"a":1} x`} {
		if got, err := resultsOf(t, text, "."); err == nil {
			t.Errorf("%q gives %s", text, got)
		}
	}
}

func resultsOf(t *testing.T, doc, query string) (string, error) {
	t.Helper()
	r := &runner{ctx: t.Context(), keys: newKeyOrder(), left: 1 << 20, request: request{Source: Source{Size: int64(len(doc))}, Query: query}, res: &Result{}}
	err := r.run(strings.NewReader(doc))
	var all []string
	for _, res := range r.res.Results {
		all = append(all, string(res))
	}
	return strings.Join(all, " "), err
}

// A query on a document runs once: to find out whether it is about rows would take as long again.
func TestDocumentIsQueriedOnce(t *testing.T) {
	const query = "[range(10000)] | length"
	code, err := compile(query)
	if err != nil {
		t.Fatal(err)
	}
	once := testing.AllocsPerRun(1, func() { code.Run(map[string]any{}).Next() })
	if got := testing.AllocsPerRun(1, func() { _, _ = resultsOf(t, `{"a":1}`, query) }); got > 1.5*once {
		t.Errorf("a query makes %v allocations, and once %v", got, once)
	}
}

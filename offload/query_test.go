package offload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

func TestQuery(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	o := NewOffloader(store, Config{Threshold: 1, InlineChars: 1})
	for i, call := range []tools.Call{
		{ID: "one", Session: "s", Tool: "fetch", TaskID: "t1"},
		{ID: "not a token", Session: "s", Tool: "shell", TaskID: "t1", Action: "run"},
		{ID: "three", Session: "s", Tool: "fetch", TaskID: "t2"},
		{ID: "one", Session: "other", Tool: "fetch", TaskID: "t1"},
	} {
		if _, err := o.Result(t.Context(), call, tools.Definition{}, tools.NewToolResult(fmt.Sprint("text number ", i))); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(store, ReaderConfig{})
	for _, row := range []struct {
		filter map[string]string
		want   []string
	}{
		{nil, []string{"not a token", "one", "three"}},
		{map[string]string{"context_type": "tool_result"}, []string{"not a token", "one", "three"}},
		{map[string]string{"tool_name": "fetch", "task_id": "t1"}, []string{"one"}},
		{map[string]string{"biz_id": "not a token"}, []string{"not a token"}},
		{map[string]string{"artifact_id": "three", "type": "TEXT"}, []string{"three"}},
		{map[string]string{"session_id": "other"}, nil},
		{map[string]string{"tool_name": "FETCH"}, nil},
	} {
		listing, err := r.Query(t.Context(), "s", row.filter, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range listing.Artifacts {
			got = append(got, a.Metadata["biz_id"])
		}
		slices.Sort(got)
		if !slices.Equal(got, row.want) || listing.Count != len(row.want) {
			t.Errorf("query %v finds %q, want %q", row.filter, got, row.want)
		}
	}
	_, err := r.Query(t.Context(), "s", map[string]string{"tool": "fetch"}, 0, 0)
	wantCode(t, err, tools.CodeInvalidArguments, "tool_name")

	info, err := r.OffloadInfo(t.Context(), "s", "t1", 0, 0)
	if err != nil || info.Count != 2 || info.TotalSize != 2*13 {
		t.Errorf("info is %+v, %v", info, err)
	}
	for _, want := range []string{"Found 2 artifact(s), 26 characters in total:\n\n", `tool_name "shell", action_name "run", task_id "t1", biz_id "not a token"`, "one: TEXT, 13 characters, about 6 tokens, 1 lines, 0s old"} {
		if !strings.Contains(info.Text(), want) {
			t.Errorf("the text\n%s\ndoes not contain %q", info.Text(), want)
		}
	}
}

func TestListingIsBounded(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	for i := range 250 {
		putArtifact(t, store, "s", fmt.Sprintf("a%03d%s", i, strings.Repeat("x", i*100)), []byte("x"))
	}
	listing, err := NewReader(store, ReaderConfig{}).Query(t.Context(), "s", nil, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(listing)
	if err != nil || len(data) > 512<<10 || len(listing.Text()) > 100_000 {
		t.Errorf("the listing has %d bytes as JSON and %d as text", len(data), len(listing.Text()))
	}
	if n := len(listing.Artifacts); listing.Count != 250 || n == 0 || n >= 200 {
		t.Errorf("of %d artifacts %d are listed", listing.Count, n)
	}
	if !strings.Contains(listing.Text(), "; the newest") {
		t.Error("the text does not say that it is not all")
	}
}

func TestTools(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "a", []byte("one\ntwo\nthree"))
	putArtifact(t, store, "s", "j", []byte(`{"a":[1,2]}`))
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(NewReader(store, ReaderConfig{}).Tools()...); err != nil {
		t.Fatal(err)
	}
	arguments := map[string][]string{
		ToolGet:   {"artifact_id", "limit", "offset"},
		ToolLines: {"artifact_id", "cursor", "end_line", "start_line"},
		ToolGrep:  {"artifact_id", "context_after", "context_before", "cursor", "ignore_case", "max_results", "pattern"},
		ToolJQ:    {"artifact_id", "cursor", "query"},
		ToolSQL:   {"artifacts", "cursor", "delimiter", "header", "path", "sql"},
		ToolQuery: {"filter", "offset"},
		ToolInfo:  {"offset", "session", "task"},
	}
	for _, def := range registry.Definitions() {
		if !def.NoOffload || def.Effect != tools.Idempotent || def.Description == "" {
			t.Errorf("%s is %+v", def.Name, def)
		}
		var names []string
		for name, schema := range def.Parameters.Properties {
			names = append(names, name)
			if schema.Description == "" {
				t.Errorf("%s of %s is not described", name, def.Name)
			}
		}
		if slices.Sort(names); !slices.Equal(names, arguments[def.Name]) {
			t.Errorf("%s takes %q, want %q", def.Name, names, arguments[def.Name])
		}
		delete(arguments, def.Name)
	}
	if len(arguments) > 0 {
		t.Errorf("there are no tools for %v", arguments)
	}
	for _, row := range []struct{ tool, args, want, code string }{
		{ToolGet, `{"artifact_id":"a"}`, "one\ntwo\nthree", ""},
		{ToolGet, `{"artifact_id":"a","offset":4,"limit":3}`, "Characters 4-6 of 13 (knowledge_id: a); the next page has offset=7:\n\ntwo", ""},
		{ToolLines, `{"artifact_id":"a","start_line":2,"end_line":9}`, "Lines 2-3 of 3 (knowledge_id: a):\n\ntwo\nthree", ""},
		{ToolLines, `{"artifact_id":"a","start_line":2}`, "Lines 2-3 of 3 (knowledge_id: a):\n\ntwo\nthree", ""},
		{ToolLines, `{"artifact_id":"a","start_line":-1}`, "Lines 3-3 of 3 (knowledge_id: a):\n\nthree", ""},
		{ToolLines, `{"artifact_id":"a","start_line":4,"end_line":9}`, "start_line 4 is outside of the artifact \"a\"; valid lines are 1 to 3", tools.CodeInvalidArguments},
		{ToolGrep, `{"artifact_id":"a","pattern":"T","ignore_case":true,"context_before":1,"max_results":1}`,
			"Found 2 match(es) for pattern 'T' in knowledge#a (3 total lines)\n\n1- one\n2: two\n\n[only the first 1 matching line(s) are shown; continue with cursor=\"at8+0\" (line 3), or narrow the pattern]", ""},
		{ToolJQ, `{"artifact_id":"j","query":".a[]"}`, "Found 2 result(s) for query '.a[]' in knowledge#j\n\n1\n2", ""},
		{ToolInfo, `{"session":"other"}`, "session \"other\" is not the session of this call; omit session", tools.CodeInvalidArguments},
		{ToolQuery, `{"filter":{"biz_id":"none"}}`, "Found 0 artifact(s), 0 characters in total", ""},
	} {
		res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: row.tool, Args: []byte(row.args)}, nil)
		if res.ForLLM != row.want || !res.Silent || res.ForUser != "" || res.IsError != (row.code != "") {
			t.Errorf("%s %s gives %+v, want %q", row.tool, row.args, res, row.want)
		}
		if row.code != "" && tools.CodeOf(res.Err) != row.code {
			t.Errorf("%s %s has the code %s, want %s", row.tool, row.args, tools.CodeOf(res.Err), row.code)
		}
	}
	for _, args := range []string{`{}`, `{"filter":{"biz_id":"a"}}`} {
		tool := ToolQuery
		res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: tool, Args: []byte(args)}, nil)
		if res.IsError || !strings.Contains(res.ForLLM, "a: TEXT, 13 characters") {
			t.Errorf("%s %s gives %q", tool, args, res.ForLLM)
		}
	}
	res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: ToolInfo, Args: []byte(`{"session":"s"}`)}, nil)
	if res.IsError || !strings.Contains(res.ForLLM, "Found 2 artifact(s)") {
		t.Errorf("info of the own session gives %q", res.ForLLM)
	}
}

// Results must be equal after their way over the bus.
func TestTextSurvivesTheWire(t *testing.T) {
	t.Parallel()
	r := stored(t, []byte("{\"a\":\"<&>\"}\n"+strings.Repeat("[1,\"é\"]\n", 30_000)))
	ctx := t.Context()
	page, err1 := r.GetByID(ctx, "s", "a", 10, 0)
	lines, err2 := r.GetByLines(ctx, "s", "a", LinesQuery{StartLine: 1, EndLine: 20_000})
	found, err3 := r.Grep(ctx, "s", "a", GrepQuery{Pattern: "1", MaxResults: 3, ContextAfter: 2})
	made, err4 := r.JQ(ctx, "s", "a", JQQuery{Query: ".[0]?, .a?"})
	listing, err5 := r.Query(ctx, "s", nil, 0, 0)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ sent, got textResult }{
		{page, new(Page)}, {lines, new(Lines)}, {found, new(GrepResult)}, {made, new(JQResult)}, {listing, new(Listing)},
	} {
		var data strings.Builder
		enc := json.NewEncoder(&data)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(row.sent); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(data.String()), row.got); err != nil {
			t.Fatal(err)
		}
		if got, want := row.got.Text(), row.sent.Text(); got != want {
			t.Errorf("%T reads\n%.500s\nwant\n%.500s", row.got, got, want)
		}
	}
}

// Arguments in the forms that models write.
func TestToolsAcceptWhatModelsWrite(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "a", []byte("one\ntwo\nthree"))
	putArtifact(t, store, "s", "t", []byte("n,name\n1,a\n2,b\n"))
	registry := tools.NewRegistry(zerolog.Nop())
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	if err := registry.Register(r.Tools()...); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ tool, args, want string }{
		{ToolGet, `{"knowledge_id":"a","offset":"4","limit":"3"}`, "two"},
		{ToolLines, `{"artifact_id":"a","start_line":"2","end_line":null}`, "two\nthree"},
		{ToolLines, `{"knowledge_id":"a","start_line":-2,"end_line":-2}`, "Lines 2-2 of 3"},
		{ToolGrep, `{"id":"a","regex":"TWO","ignore_case":"true","max_results":"1"}`, "2: two"},
		{ToolQuery, `{"filter":"{\"artifact_id\":\"a\"}"}`, "Found 1 artifact(s)"},
		{ToolInfo, `{"task":null}`, "Found "},
		{ToolSQL, `{"artifact_id":"t","query":"SELECT sum(n) FROM t1"}`, "sum(n)\n3"},
		{ToolSQL, `{"knowledge_id":"t","sql":"SELECT sum(n) FROM t"}`, "sum(n)\n3"},
		{ToolSQL, `{"artifacts":"t","sql":"SELECT sum(n) FROM t1","header":"true"}`, "sum(n)\n3"},
		{ToolJQ, `{"artifacts":["t"],"sql":"length"}`, "the number of rows"},
		{ToolGrep, `{"artifacts":"a","query":"two"}`, "2: two"},
		// The names of the sources.
		{ToolQuery, `{"search_filter":{"artifact_id":"a"},"namespace":"n","session_id":"s"}`, "Found 1 artifact(s)"},
		{ToolInfo, `{"namespace":"n","task_id":null,"session_id":"s"}`, "Found "},
		{ToolGrep, `{"artifact_id":"a","pattern":"two","namespace":"n","session_id":"s"}`, "2: two"},
	} {
		res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: row.tool, Args: []byte(row.args)}, nil)
		if res.IsError || !strings.Contains(res.ForLLM, row.want) {
			t.Errorf("%s %s gives %q, want %q", row.tool, row.args, res.ForLLM, row.want)
		}
	}
	call := tools.Call{ID: "1", Session: "s", Tool: ToolInfo, Args: []byte(`{"session_id":"other"}`)}
	if res := registry.Run(t.Context(), call, nil); !res.IsError || !strings.Contains(res.ForLLM, "is not the session of this call") {
		t.Errorf("another session: %q", res.ForLLM)
	}
}

func TestQueryPages(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	for i := range 120 {
		putArtifact(t, store, "s", fmt.Sprintf("a%03d", i), []byte("x"))
	}
	r := NewReader(store, ReaderConfig{})
	var seen []string
	for offset := 0; ; {
		page, err := r.Query(t.Context(), "s", nil, offset, 50)
		if err != nil || page.Count != 120 {
			t.Fatal(page, err)
		}
		var ids []string
		for _, a := range page.Artifacts {
			ids = append(ids, a.ID)
		}
		seen = append(ids, seen...)
		if offset = page.NextOffset; offset == 0 {
			break
		}
		if !strings.Contains(page.Text(), fmt.Sprintf("continue with offset=%d", offset)) {
			t.Errorf("the text does not say how to continue: %.200s", page.Text())
		}
	}
	if len(seen) != 120 || !slices.IsSorted(seen) {
		t.Errorf("the pages have %d artifacts, sorted %v", len(seen), slices.IsSorted(seen))
	}
	if n := len(must(r.Query(t.Context(), "s", nil, 0, 50)).Text()); n > 15_000 {
		t.Errorf("a page has %d bytes", n)
	}
	for _, tool := range NewReader(store, ReaderConfig{MaxChars: 2_500}).Tools() { // what a host shows of a result
		name := tool.Definition().Name
		res := tool.Execute(t.Context(), tools.Call{ID: "1", Session: "s", Tool: name, Args: []byte("{}")})
		if list := name == ToolQuery || name == ToolInfo; list && (len(res.ForLLM) > 2_500 || name == ToolQuery && !strings.Contains(res.ForLLM, "continue with offset=")) {
			t.Errorf("%s: %d bytes: %.200s", name, len(res.ForLLM), res.ForLLM)
		}
	}
}

// A model's list of artifacts is bounded also if the names are long, and the tool that
// says "continue with offset" takes an offset.
func TestListsForModelsAreBounded(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	long := strings.Repeat("n", 70)
	for i := range 60 {
		rec := Record{Session: "s", Metadata: map[string]string{"context_type": ContextToolResult, "tool_name": long, "action_name": long, "task_id": long, "biz_id": long}}
		rec.ID = fmt.Sprintf("%s-%03d", strings.Repeat("i", 56), i)
		if _, err := store.Put(t.Context(), rec, bytes.NewReader([]byte("x")), nil); err != nil {
			t.Fatal(err)
		}
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(NewReader(store, ReaderConfig{}).Tools()...); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{ToolQuery, ToolInfo} {
		seen, args := 0, "{}"
		for range 10 {
			res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: tool, Args: []byte(args)}, nil)
			if res.IsError || len(res.ForLLM) > PageChars {
				t.Fatalf("%s %s: %d characters: %.200s", tool, args, len(res.ForLLM), res.ForLLM)
			}
			seen += strings.Count(res.ForLLM, ", tool_name")
			_, next, more := strings.Cut(res.ForLLM, "continue with offset=")
			if !more {
				break
			}
			args = `{"offset":"` + strings.TrimSuffix(next, "]") + `"}`
		}
		if seen != 60 {
			t.Errorf("the pages of %s have %d of 60 artifacts", tool, seen)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

package wrap

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// The list of the stored results has pages.
func TestResourcePages(t *testing.T) {
	t.Parallel()
	store := mem.New(offload.StoreConfig{})
	offloader := offload.NewOffloader(store, offload.Config{})
	for i := range 210 {
		id := fmt.Sprint("artifact-", i)
		if _, err := offloader.Attach(t.Context(), tools.Call{ID: id, Session: "s"}, io.NewSectionReader(strings.NewReader(id), 0, int64(len(id)))); err != nil {
			t.Fatal(err)
		}
	}
	s := wrapServer(t, "", func(c *Config) {
		c.Store, c.Server = store, func(context.Context) (Link, error) { return NewEcho(), nil }
	})
	listed := map[string]bool{}
	for r, err := range s.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed[r.URI] = true
	}
	if len(listed) != 210 {
		t.Errorf("%d of 210 artifacts are listed", len(listed))
	}
}

// A program stores results of its own tools: the same result has the same reference.
func TestEcho(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := disk.Open(dir, offload.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var counted sync.Map // the tools
	s := wrapServer(t, "", func(c *Config) {
		c.Store, c.Count = store, func(c Count) { counted.Store(c.Tool, true) }
		c.Server, c.ContentIDs = func(context.Context) (Link, error) { return NewEcho(), nil }, true
		c.Session = "a name that is no token"
	})
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "read_result" {
		t.Fatalf("%+v, %v", list, err)
	}
	result := func(text string) map[string]any {
		return map[string]any{"content": []map[string]any{{"type": "text", "text": text}}, "isError": true}
	}
	if got := s.call(t, "any tool", result("short")); texts(got) != "short" || !got.IsError {
		t.Errorf("%+v", got)
	}
	const text = "use grep_knowledge(artifact_id, pattern) or read_result(id, grep)" // as source code may have
	long := strings.Repeat("a line\n", 9_999) + text
	first, second, other := texts(s.call(t, "search.all", result(long))), texts(s.call(t, "search.all", result(long))), texts(s.call(t, "search.all", result(long+"x")))
	if first != second || first == other || !strings.Contains(first, "the artifact 'search_") || len(first) > 2500 {
		t.Errorf("references %q, %q, %q", first, second, other)
	}
	_, id, _ := strings.Cut(first, "the artifact '")
	id, _, _ = strings.Cut(id, "'")
	if got := texts(s.call(t, "read_result", map[string]any{"id": id, "lines": "10000"})); !strings.HasSuffix(got, text) {
		t.Errorf("reading back: %s", got)
	}
	if list, err := s.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 2 {
		t.Errorf("resources %+v, %v", list, err)
	}
	if records, err := filepath.Glob(filepath.Join(dir, "*", ".*.artifact.json")); err != nil || len(records) != 2 || os.Truncate(records[0], 40) != nil {
		t.Fatal(records, err)
	}
	if list, err := s.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 1 {
		t.Errorf("resources beside a damaged record %+v, %v", list, err)
	}
	s.call(t, "read_result", nil)
	var names []string
	s.await(t, "the list to be counted", func() bool { _, ok := counted.Load("read_result"); return ok })
	for name := range counted.Range {
		names = append(names, name.(string))
	}
	if slices.Sort(names); !slices.Equal(names, []string{"any tool", "read_result", "search.all"}) {
		t.Errorf("results of %q were counted", names)
	}
	for _, args := range []map[string]any{nil, {"text": "x"}, {"content": "x"}} {
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search", Arguments: args}); err == nil || !strings.Contains(err.Error(), "the arguments are to be the result") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := s.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

package tools_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stevedore-bus/stevedore/tools"
)

// Replace leaves out the tools that cannot be registered, and only those.
func TestReplace(t *testing.T) {
	r := tools.NewRegistry(zerolog.Nop())
	if err := r.Register(named("own", tools.NewToolResult("own")), named("old", nil), named("same", nil)); err != nil {
		t.Fatal(err)
	}
	added, err := r.Replace([]string{"old", "same", "unknown"},
		named("own", tools.NewToolResult("foreign")), named("same", tools.NewToolResult("new")), named("bad.name", nil), named("more", nil))
	if err == nil || !slices.Equal(added, []string{"same", "more"}) {
		t.Errorf("added %q, error %v", added, err)
	}
	var names []string
	for _, def := range r.Definitions() {
		names = append(names, def.Name)
	}
	if !slices.Equal(names, []string{"more", "own", "same"}) {
		t.Errorf("the tools are %q", names)
	}
	for tool, want := range map[string]string{"own": "own", "same": "new"} {
		if res := r.Run(t.Context(), tools.Call{ID: "1", Tool: tool}, nil); res.ForLLM != want {
			t.Errorf("%s: %q, want %q", tool, res.ForLLM, want)
		}
	}
}

// A call finds a tool at any time while it is replaced.
func TestReplaceIsAtomic(t *testing.T) {
	r := tools.NewRegistry(zerolog.Nop())
	if err := r.Register(named("a", tools.NewToolResult("ok"))); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, ok := r.Definition("a"); !ok {
					t.Error("the tool was unknown")
					return
				}
			}
		})
	}
	for range 2000 {
		if _, err := r.Replace([]string{"a"}, named("a", tools.NewToolResult("ok"))); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
}

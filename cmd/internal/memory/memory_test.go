package memory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/memory"
	"github.com/stevedore-bus/stevedore/tools"
)

// newTools returns a function that calls the tools of a bus. The owner of a session is the part
// of its name before a slash.
func newTools(t *testing.T, b *bus.Bus) func(session, id, tool string, args map[string]any) *tools.Result {
	t.Helper()
	registry := tools.NewRegistry(zerolog.Nop())
	err := registry.Register(memory.New(b).Tools(func(session string) string {
		owner, _, _ := strings.Cut(session, "/")
		return owner
	})...)
	if err != nil {
		t.Fatal(err)
	}
	return func(session, id, tool string, args map[string]any) *tools.Result {
		body, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return registry.Run(t.Context(), tools.Call{ID: id, Session: session, Tool: tool, Args: body}, nil)
	}
}

// A note is recalled in another session of its owner, and never by another owner, who cannot
// remove it either.
func TestNotes(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := newTools(t, b)
	for range 2 { // the call is delivered twice
		if res := call("ann/1", "c1", memory.ToolRemember, map[string]any{"text": " Ann drinks her tea\nwithout Milk. "}); res.IsError {
			t.Fatalf("remember: %s", res.ForLLM)
		}
	}
	call("ann/1", "c2", memory.ToolRemember, map[string]any{"text": "Ann has a milk allergy."})
	call("bob/1", "c1", memory.ToolRemember, map[string]any{"text": "Bob likes milk."})
	notes, err := memory.New(b).List(t.Context(), "ann")
	if err != nil || len(notes) != 2 || notes[0].Text != "Ann has a milk allergy." || notes[0].Session != tools.TokenOf("ann/1") || notes[0].At.IsZero() {
		t.Fatalf("the notes of Ann are %+v, %v", notes, err)
	}
	if _, err := memory.New(b).Add(t.Context(), memory.Shared, "", "x", "The milk is in the cellar."); err != nil {
		t.Fatal(err)
	}
	recall := func(session, query string) string {
		res := call(session, "r", memory.ToolRecall, map[string]any{"query": query})
		if res.IsError {
			t.Errorf("recall: %s", res.ForLLM)
		}
		return res.ForLLM
	}
	got := recall("ann/2", "MILK tea")
	if lines := strings.Split(got, "\n"); len(lines) != 4 || !strings.Contains(lines[0], "Ann drinks her tea without Milk.") || !strings.Contains(got, "for all users): The milk is in the cellar.") || strings.Contains(got, "Bob") {
		t.Errorf("Ann recalls %q", got)
	}
	if got := recall("carl/1", "milk"); strings.Contains(got, "Ann") || strings.Contains(got, "Bob") || !strings.Contains(got, "cellar") {
		t.Errorf("Carl recalls %q", got)
	}
	if got := recall("ann/2", "juice"); got != "No note has these words; there are 3 notes." {
		t.Errorf("without a match: %q", got)
	}
	for _, id := range []string{notes[0].ID, "*", ">", "", "ann." + notes[0].ID} {
		if res := call("bob/1", "f", memory.ToolForget, map[string]any{"id": id}); !res.IsError || tools.CodeOf(res.Err) != tools.CodeNotFound {
			t.Errorf("Bob removes the note %q of Ann: %+v", id, res)
		}
	}
	if res := call("ann/3", "f", memory.ToolForget, map[string]any{"id": notes[0].ID}); res.IsError || strings.Contains(recall("ann/1", ""), "allergy") {
		t.Errorf("forget: %s", res.ForLLM)
	}
}

// Notes are bounded.
func TestNotesHaveLimits(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := newTools(t, b)
	for text, want := range map[string]string{"": "empty", " \n": "empty", strings.Repeat("x", 1<<20): "at most 2000"} {
		if res := call("s", "c", memory.ToolRemember, map[string]any{"text": text}); !res.IsError || !strings.Contains(res.ForLLM, want) {
			t.Errorf("a note of %d bytes: %.200s, want %q", len(text), res.ForLLM, want)
		}
	}
	kv, err := b.Bucket(t.Context(), bus.StateBucket)
	if err != nil {
		t.Fatal(err)
	}
	var stored sync.WaitGroup
	for i := range 500 {
		stored.Go(func() {
			body := fmt.Sprintf(`{"v":1,"text":"%s","at":"2026-01-01T00:00:00Z"}`, strings.Repeat("word ", 100))
			if _, err := kv.PutString(t.Context(), fmt.Sprintf("memory.s.n%d", i), body); err != nil {
				t.Error(err)
			}
		})
	}
	stored.Wait()
	if res := call("s", "c", memory.ToolRemember, map[string]any{"text": "one more"}); !res.IsError || !strings.Contains(res.ForLLM, "forget some") {
		t.Errorf("the note 501: %s", res.ForLLM)
	}
	if res := call("s", "c", memory.ToolRecall, map[string]any{"query": "word"}); res.IsError || len(res.ForLLM) > 15_000 || !strings.Contains(res.ForLLM, "more notes match") {
		t.Errorf("recall of 500 notes: %d characters, %.300s", len(res.ForLLM), res.ForLLM)
	}
}

// A note of another format is named, and stays. The tools go on with the other notes.
func TestUnreadableNote(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := newTools(t, b)
	kv, err := b.Bucket(t.Context(), bus.StateBucket)
	if err != nil {
		t.Fatal(err)
	}
	unreadable := map[string]string{"memory.s.next": `{"v":2,"text":"tea"}`, "memory.s.torn": `{"v":1,"te`, "memory.s.empty": "", "memory.shared.x": "null"}
	for key, body := range unreadable {
		if _, err := kv.PutString(t.Context(), key, body); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"Ann drinks tea.", "Ann has a cat."} {
		if res := call("s", text, memory.ToolRemember, map[string]any{"text": text}); res.IsError {
			t.Errorf("remember: %s", res.ForLLM)
		}
	}
	for query, want := range map[string]string{"": "cat", "tea": "drinks", "version program": "memory.s"} {
		res := call("s", "c", memory.ToolRecall, map[string]any{"query": query})
		if res.IsError || !strings.Contains(res.ForLLM, want) || query == "tea" && !strings.Contains(res.ForLLM[:strings.Index(res.ForLLM, "\n")], "drinks tea") {
			t.Errorf("recall of %q: %s", query, res.ForLLM)
		}
		for key := range unreadable {
			if !strings.Contains(res.ForLLM, "cannot read this note, "+key+".") {
				t.Errorf("recall of %q does not name %s: %s", query, key, res.ForLLM)
			}
		}
	}
	notes, err := memory.New(b).List(t.Context(), "s")
	if err != nil || len(notes) != 5 {
		t.Fatalf("%+v, %v", notes, err)
	}
	for _, n := range notes {
		if n.Unreadable == strings.Contains(n.Text, "Ann") || n.At.IsZero() {
			t.Errorf("%+v", n)
		}
		if strings.Contains(n.Text, "cat") {
			if res := call("s", "f", memory.ToolForget, map[string]any{"id": n.ID}); res.IsError {
				t.Errorf("forget: %s", res.ForLLM)
			}
		}
	}
	for key, body := range unreadable {
		if entry, err := kv.Get(t.Context(), key); err != nil || string(entry.Value()) != body {
			t.Errorf("%s is %v now, %v", key, entry, err)
		}
	}
}

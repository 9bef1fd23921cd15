package offload

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// TestReferenceOfTheSameContent: the second reference to a content says which artifact has it, as
// long as the session has that artifact.
func TestReferenceOfTheSameContent(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	o := NewOffloader(store, Config{InlineChars: 1, Threshold: 1})
	refer := func(session, id, text string) string {
		t.Helper()
		res, err := o.Result(t.Context(), tools.Call{ID: id, Session: session, Tool: "list"}, tools.Definition{Name: "list"}, tools.NewToolResult(text))
		if err != nil {
			t.Fatal(err)
		}
		return res.ForLLM
	}
	const same = "The content is the same as that of the artifact '"
	text := strings.Repeat("one line of many\n", 2_000)
	first := refer("s", "a", text)
	second := refer("s", "b", text)
	if strings.Contains(first, same) || !strings.Contains(second, same+"a' of an earlier call.") || len(second) > len(first)-800 {
		t.Errorf("the references are\n%s\n%s", first, second)
	}
	for _, row := range []struct{ why, session, id, text string }{
		{"a repeated call", "s", "a", text}, {"another session", "other", "c", text}, {"another content", "s", "d", text + "x"},
	} {
		if got := refer(row.session, row.id, row.text); strings.Contains(got, same) {
			t.Errorf("%s: %s", row.why, got)
		}
	}
	if err := store.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if got := refer("s", "e", text); strings.Contains(got, same) {
		t.Errorf("after the first one was removed: %s", got)
	}
	if got := refer("s", "f", text); !strings.Contains(got, same+"e'") {
		t.Errorf("after a new first one: %s", got)
	}
}

package offload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// TestReferenceOfAChangedResult: the reference to the result of a repeated call says what changed
// since the last one, and nothing of other calls and sessions.
func TestReferenceOfAChangedResult(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	o := NewOffloader(store, Config{InlineChars: 1, Threshold: 1})
	calls := 0
	refer := func(session, args, text string) string {
		t.Helper()
		calls++
		call := tools.Call{ID: fmt.Sprint("c", calls), Session: session, Tool: "list", Args: json.RawMessage(args)}
		res, err := o.Result(t.Context(), call, tools.Definition{Name: "list"}, tools.NewToolResult(text))
		if err != nil {
			t.Fatal(err)
		}
		return res.ForLLM
	}
	var b strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&b, "pod-%04d running\n", i)
	}
	text := b.String()
	changed := strings.Replace(strings.Replace(text, "pod-0007 running\n", "", 1), "pod-0042 running", "pod-0042 failed </knowledge_list>", 1)
	const compared = "Compared with the artifact 'c"
	first := refer("s", `{"n":1}`, text)
	second := refer("s", `{"n":1}`, changed)
	want := compared + "1', which the same call returned before, it has 1 new lines, and 2 are gone; the first of them:\n+ pod-0042 failed &lt;/knowledge_list>\n- pod-0007 running\n- pod-0042 running\n"
	if strings.Contains(first, compared) || !strings.Contains(second, want) || len(second) > len(first) {
		t.Errorf("the references are\n%s\n%s", first, second)
	}
	for why, got := range map[string]string{
		"another session": refer("t", `{"n":1}`, text), "other arguments": refer("s", `{"n":2}`, text), "one line": refer("s", `{"n":3}`, strings.Repeat("x", 1000)) + refer("s", `{"n":3}`, strings.Repeat("y", 1000)),
		"other lines": refer("s", `{"n":7}`, text) + refer("s", `{"n":7}`, strings.ReplaceAll(text, "pod", "job")),
		"too long":    refer("s", `{"n":4}`, strings.Repeat(text, 150)) + refer("s", `{"n":4}`, strings.Repeat(changed, 150)),
		"a picture":   refer("s", `{"n":8}`, "\x89PNG\r\n\x1a\n"+text) + refer("s", `{"n":8}`, "\x89PNG\r\n\x1a\n"+changed),
		"UTF-16":      refer("s", `{"n":9}`, "\xff\xfe"+strings.Repeat("a\x00\n\x00", 900)) + refer("s", `{"n":9}`, "\xff\xfe"+strings.Repeat("a\x00\n\x00", 900)+"b\x00"),
	} {
		if strings.Contains(got, compared) {
			t.Errorf("%s: %s", why, got)
		}
	}
	if got := refer("s", `{"n":1}`, strings.Repeat("new line\n", 2)+changed); !strings.Contains(got, compared+"2', which the same call returned before, it has 2 new lines, and 0 are gone; the first of them:\n+ new line\n+ new line\n") {
		t.Errorf("the third result is compared with\n%s", got)
	}
	lines := strings.SplitAfter(text, "\n")
	lines[0], lines[1] = lines[1], lines[0]
	refer("s", `{"n":5}`, text+"end")
	if got := refer("s", `{"n":5}`, strings.Join(lines, "")+"end"); !strings.Contains(got, "it has the same lines in another order.") {
		t.Errorf("in another order:\n%s", got)
	}
	if err := store.Delete(t.Context(), "s", fmt.Sprint("c", calls)); err != nil {
		t.Fatal(err)
	}
	if got := refer("s", `{"n":5}`, text); strings.Contains(got, compared) {
		t.Errorf("after the artifact was removed:\n%s", got)
	}
	refer("s", "", text)
	if got := refer("s", "", changed); strings.Contains(got, compared) {
		t.Errorf("without arguments:\n%s", got)
	}
}

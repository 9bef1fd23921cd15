package offload

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Results that arrive together and would fill the prompt become references, although none of
// them is large.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testBudget) // the budget returns with time
}

func testBudget(t *testing.T) {
	o := NewOffloader(newFakeStore(StoreConfig{}), Config{Budget: 100_000})
	shown := 0
	for i := range 30 {
		call := tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "fetch"}
		text := strings.Repeat(fmt.Sprintf("line of result %d\n", i), 1_500)
		res := mustOffload(t, o, call, tools.NewToolResult(text))
		if full := res.ForLLM == text; full != (i < 3) || !full && (res.Artifact == nil || storedText(t, o.store, "s", call.ID) != text) {
			t.Errorf("result %d of %d characters is shown with %d, artifact %v", i, len(text), len(res.ForLLM), res.Artifact)
		}
		shown += len(res.ForLLM)
	}
	if shown > 160_000 {
		t.Errorf("%d characters are in the prompt", shown)
	}

	text, no := strings.Repeat("x ", 10_000), false
	for name, c := range map[string]struct {
		call tools.Call
		def  tools.Definition
		text string
	}{
		"another session":     {call: tools.Call{ID: "a", Session: "other"}, text: text},
		"the call forbids it": {call: tools.Call{ID: "b", Session: "s", Offload: &no}, text: text},
		"a tool that reads":   {call: tools.Call{ID: "c", Session: "s"}, def: tools.Definition{NoOffload: true}, text: text},
		"a short result":      {call: tools.Call{ID: "d", Session: "s"}, text: text[:MinBudgeted-1]},
	} {
		res, err := o.Result(t.Context(), c.call, c.def, tools.NewToolResult(c.text))
		if err != nil || res.ForLLM != c.text {
			t.Errorf("%s: %.200q, %v", name, res.ForLLM, err)
		}
	}
	for i := range 5 { // JSON that long is not shown in full, so it costs nothing
		call := tools.Call{ID: fmt.Sprint("j", i), Session: "json", Tool: "fetch"}
		if json := "[" + strings.Repeat(`{"a": 1},`, 3_000) + fmt.Sprint(i, "]"); mustOffload(t, o, call, tools.NewToolResult(json)).ForLLM == json {
			t.Error("a long JSON is shown in full")
		}
	}
	if res := mustOffload(t, o, tools.Call{ID: "t", Session: "json", Tool: "fetch"}, tools.NewToolResult(text)); res.ForLLM != text {
		t.Errorf("after references of JSON: %.200q", res.ForLLM)
	}
	picture := "data:image/png;base64," + base64.StdEncoding.EncodeToString(screenshot(t, 800, 800))
	for i := range 6 { // a text with a picture, which becomes a block, counts once
		call := tools.Call{ID: fmt.Sprint("p", i), Session: "pictures", Tool: "fetch"}
		if res := mustOffload(t, o, call, tools.NewToolResult(fmt.Sprint(text[:10_000], i, picture))); res.Blocks == nil || !strings.HasPrefix(res.ForLLM, text[:10_000]) {
			t.Errorf("result %d with a picture: %.200q", i, res.ForLLM)
		}
	}
	for name, cfg := range map[string]Config{"no budget": {}, "longer than the budget": {Budget: 5_000, InlineChars: 100_000}} {
		if res, _ := offloadText(t, cfg, aCall, text); res.ForLLM != text {
			t.Errorf("%s: %.200q", name, res.ForLLM)
		}
	}
}

// The budget of a session returns within a minute, and the number of sessions is bounded.
func TestBudgetReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b recent
		spend := func(want bool) {
			t.Helper()
			if got := b.spend("s", 6_000, 10_000); got != want {
				t.Errorf("a result is shown: %t, want %t", got, want)
			}
		}
		spend(true)
		spend(false)
		time.Sleep(12 * time.Second) // 2,000 more
		spend(true)
		spend(false)
		for i := range 2 * maxRecent {
			b.spend(fmt.Sprint(i), 1, 1)
		}
		if len(b.budgets) > maxRecent {
			t.Errorf("%d sessions are remembered", len(b.budgets))
		}
	})
}

package wrap

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Each result is counted with what the model got of it, and each page that it reads back.
func TestCounts(t *testing.T) {
	t.Parallel()
	counts := make(chan Count, 10)
	c := wrapRawWith(t, "sdk", "codex-mcp-client", Config{LateTools: true, Count: func(c Count) { counts <- c }})
	next := func() Count {
		t.Helper()
		select {
		case c := <-counts:
			return c
		case <-time.After(testTimeout):
			t.Fatal("nothing was counted")
			return Count{}
		}
	}
	ask := func(method, params string) string {
		c.say(t, `{"jsonrpc":"2.0","id":9,"method":"`+method+`","params":`+params+`}`)
		result := c.response(t, "9").Result
		for _, name := range []string{"content", "contents"} {
			if all, ok := result[name].([]any); ok {
				return all[0].(map[string]any)["text"].(string)
			}
		}
		return ""
	}
	for lines, stored := range map[int]bool{3: false, 5000: true} {
		got := ask("tools/call", fmt.Sprintf(`{"name":"big","arguments":{"lines":%d}}`, lines))
		want := Count{"codex-mcp-client", "big", int64(utf8.RuneCountInString(bigText(lines))), int64(utf8.RuneCountInString(got)), 0}
		if counted := next(); counted != want || stored != (want.Shown < want.Whole) {
			t.Errorf("%d lines: %+v, want %+v", lines, counted, want)
		}
		if !stored {
			continue
		}
		_, id, _ := strings.Cut(got, "the artifact '")
		id, _, _ = strings.Cut(id, "'")
		page := ask("resources/read", `{"uri":"stevedore://s/artifacts/`+id+`?lines=1-9"}`)
		if counted, want := next(), (Count{"codex-mcp-client", "big", 0, 0, int64(utf8.RuneCountInString(page))}); counted != want {
			t.Errorf("a page: %+v, want %+v", counted, want)
		}
	}
	ask("tools/list", "{}")
	if len(counts) > 0 {
		t.Errorf("the list of tools was counted: %+v", <-counts)
	}
}

package notify

import (
	"strings"
	"testing"
)

// A long notification does not bury what came before it.
func TestConsoleLeavesOutTheMiddle(t *testing.T) {
	var out strings.Builder
	text := strings.Repeat("line\n", 500) + "last"
	if err := NewConsole(&out).Send(t.Context(), Notification{Text: text}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got > 25 || !strings.Contains(out.String(), "[... 481 lines are not shown here ...]") || !strings.HasSuffix(out.String(), "last\n") {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
}

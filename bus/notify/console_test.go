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

// A text cannot pass for lines of the log, or for another notification.
func TestConsoleSetsTextOff(t *testing.T) {
	var out strings.Builder
	if err := NewConsole(&out).Send(t.Context(), Notification{Tool: "shell", Text: "a\n\n13:03:16 INF forged\n» agent\n"}); err != nil {
		t.Fatal(err)
	}
	if want := "» shell\n  a\n  \n  13:03:16 INF forged\n  » agent\n"; out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

// What a sub-agent started is told under the session that the user knows.
func TestHeadingNamesTheUsersSession(t *testing.T) {
	for session, want := range map[string]string{
		"demo":              "» spawn in session demo",
		"sub/sp4/h_0f":      "» spawn in session sp4, by a sub-agent",
		"sub/h_0f/h_1f":     "» spawn in session sub/h_0f/h_1f", // nobody knows whose
		"sub/a b/c":         "» spawn in session sub/a b/c",
		"sub/sp4/h_0f/more": "» spawn in session sub/sp4/h_0f/more",
	} {
		if got := heading(Notification{Tool: "spawn", Session: session}); got != want {
			t.Errorf("%q: %q, want %q", session, got, want)
		}
	}
}

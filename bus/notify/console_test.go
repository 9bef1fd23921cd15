package notify

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A long notification does not bury what came before it, be it one line or many;
// and it claims no number of a text that was cut before it came here.
func TestConsoleLeavesOutTheMiddle(t *testing.T) {
	const note = "  [... what stands between is not shown here ...]\n"
	for name, text := range map[string]string{
		"lines":      "first\n" + strings.Repeat("line\n", 500) + "last",
		"one line":   "first" + strings.Repeat("ä", 32<<10) + "last",
		"long lines": "first\n" + strings.Repeat(strings.Repeat("a", 3000)+"\n", 30) + "last",
		"long first": "first" + strings.Repeat("\u6f22", 32<<10) + strings.Repeat("\nline", 15) + "last",
	} {
		var out strings.Builder
		if err := NewConsole(&out).Send(t.Context(), Notification{Text: text}); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if lines := strings.Count(got, "\n"); lines > 25 || len(got) > 9<<10 || !utf8.ValidString(got) {
			t.Errorf("%s: %d lines, %d bytes", name, lines, len(got))
		}
		if !strings.Contains(got, "  first") || !strings.Contains(got, note) || !strings.HasSuffix(got, "last\n") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	for _, whole := range []string{"a", "a\nb", strings.Repeat("x", 8<<10), strings.Repeat("line\n", 20) + "last"} {
		if got := ends(whole); got != whole {
			t.Errorf("%d bytes are cut:\n%s", len(whole), got)
		}
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

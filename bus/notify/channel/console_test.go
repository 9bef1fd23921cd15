package channel

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The console shows the head and the tail of a long notification, of one line or
// many.
func TestConsoleOmitsTheMiddle(t *testing.T) {
	const note = "  " + omitted + "\n"
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
		if got := shorten(whole); got != whole {
			t.Errorf("%d bytes are cut:\n%s", len(whole), got)
		}
	}
}

// A text cannot look like lines of the log or like another notification.
func TestConsoleIndentsText(t *testing.T) {
	var out strings.Builder
	if err := NewConsole(&out).Send(t.Context(), Notification{Tool: "shell", Text: "a\n\n13:03:16 INF forged\n» agent\n"}); err != nil {
		t.Fatal(err)
	}
	if want := "» shell\n  a\n  \n  13:03:16 INF forged\n  » agent\n"; out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

// The heading of a sub-agent's call names the user's session.
func TestHeadingNamesTheUsersSession(t *testing.T) {
	for session, want := range map[string]string{
		"demo":              "» spawn in session demo",
		"sub/sp4/h_0f":      "» spawn in session sp4, by a sub-agent",
		"sub/h_0f/h_1f":     "» spawn in session sub/h_0f/h_1f", // deeper: the user's session is unknown
		"sub/a b/c":         "» spawn in session sub/a b/c",
		"sub/sp4/h_0f/more": "» spawn in session sub/sp4/h_0f/more",
	} {
		if got := heading(Notification{Tool: "spawn", Session: session}); got != want {
			t.Errorf("%q: %q, want %q", session, got, want)
		}
	}
}

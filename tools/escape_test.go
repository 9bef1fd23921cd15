package tools

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[31m", "\u202e", "\xff", "a\r\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Escape(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Escape(%q) = %q is not UTF-8", s, got)
		}
		var before rune
		for i, r := range got {
			if invisible(r) && !joins(before, r, got[i+utf8.RuneLen(r):]) {
				t.Fatalf("Escape(%q) = %q has %U", s, got, r)
			}
			before = r
		}
		if again := Escape(got); again != got {
			t.Fatalf("Escape is not stable: %q, %q", got, again)
		}
	})
}

// Families of emoji and Persian words need joiners, which hide nothing there.
func TestEscapeKeepsJoiners(t *testing.T) {
	for _, text := range []string{"👨\u200d👩\u200d👧\u200d👦", "می\u200cخواهم", "🏳\ufe0f\u200d🌈 and क्\u200dष"} {
		if got := Escape(text); got != text {
			t.Errorf("Escape(%q) = %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"rm\u200d -rf": `rm\u200d -rf`, "a\u200cb": `a\u200cb`, "é\u200d": `é\u200d`, "\u200d👧": `\u200d👧`,
		"👨\u200d\u200d👩": `👨\u200d\u200d👩`, "é\u200d\u202eé": `é\u200d\u202eé`, "é\u200d\xff": `é\u200d\xff`, "é\u200bé": `é\u200bé`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("Escape(%q) = %q, want %q", text, got, want)
		}
	}
}

// JSON keeps its meaning, also of characters that need two escapes.
func TestEscapeJSON(t *testing.T) {
	for _, text := range []string{"plain", "a\x1b\x7f\u009b\u202e\u2028\u00ad\U000e0101\r\n\t\x00", "ü 👨\u200d👩", "\xff"} {
		in, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		out, got, want := EscapeJSON(string(in)), map[string]string{}, map[string]string{}
		if json.Unmarshal([]byte(out), &got) != nil || json.Unmarshal(in, &want) != nil || !maps.Equal(got, want) || strings.IndexFunc(out, invisible) >= 0 {
			t.Errorf("%q becomes %q", in, out)
		}
	}
}

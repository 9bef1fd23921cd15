package tools

import (
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
		for _, r := range got {
			if invisible(r) {
				t.Fatalf("Escape(%q) = %q has %U", s, got, r)
			}
		}
		if again := Escape(got); again != got {
			t.Fatalf("Escape is not stable: %q, %q", got, again)
		}
	})
}

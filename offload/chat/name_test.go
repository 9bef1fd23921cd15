package chat

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestOrdinaryIDsAreTheirOwnNames(t *testing.T) {
	for _, id := range []string{
		"toolu_01AbC", "call_9", "a", "A", "a-1", "5", "functions.read_file:0", "user@example.com",
		"2026-02-17T10:00:00", "a..b", "session-abc123", strings.Repeat("x", 65), strings.Repeat("x", 200),
		"a b", "é", "中", "工具_1", "call 😀", "हिन्दी", "日本語。",
	} {
		if got := fileName(id); got != id {
			t.Errorf("fileName(%q) = %q", id, got)
		}
	}
}

func TestHostileIDsAreHashed(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{
		"..", ".", "../../etc/passwd", "/etc/passwd", "a/b", `a\b`, "a\x00b", "a\nb", " ", " a", "a ", "-rf", "~",
		".hidden", "a.", "a]", "$(id)", "`id`", "a;b", "a|b", "e\u0301", "a\u00a0b", "a\u2028b", "\u3164", "\u202eabc", "a\u200bb", "\xff",
		strings.Repeat("x", 201), strings.Repeat("x", 1<<20), "h_abc", "H_abc", tools.Token(".."),
	} {
		got := fileName(id)
		if got != tools.Token(id) || !tools.IsToken(got) {
			t.Errorf("fileName(%.40q) = %q, want %q", id, got, tools.Token(id))
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q share the name %q", id, other, got)
		}
		seen[got] = id
	}
}

func TestEmptyNames(t *testing.T) {
	if got := fileName(""); got != "unknown" {
		t.Errorf("fileName of an empty id = %q", got)
	}
	if got := sessionName(""); got != tools.DefaultSession {
		t.Errorf("sessionName of an empty session = %q", got)
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("toolu_1")
	f.Add("../..")
	f.Add("CON")
	f.Fuzz(func(t *testing.T, id string) {
		name := fileName(id)
		if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\\\x00\r\n]") || name[0] == '.' || name[0] == '-' || !filepath.IsLocal(name+extension) {
			t.Errorf("fileName(%q) = %q, which is no safe name", id, name)
		}
	})
}

func TestReference(t *testing.T) {
	for _, s := range []string{
		"[Tool result offloaded to file: /tmp/s/a.md]", "[Content offloaded to: ./tool-result-a-1.md]",
	} {
		if got := reference(Quote(s)); got != s {
			t.Errorf("reference of %q is %q", s, got)
		}
	}
	for _, s := range []string{
		"", "x", "[Tool result offloaded to file: ]", "[Tool result offloaded to file: /tmp/s/a.md] and more",
		"see [Content offloaded to: ./tool-result-a.md]", "[Content offloaded to: ./other.md]",
		"[Content offloaded to: ./tool-result-a.md\n.md]", "[Content offloaded to: ./tool-result-.md]",
		"[Content offloaded to: ./tool-result-" + strings.Repeat("x", maxReference) + ".md]",
	} {
		if reference(Quote(s)) != "" {
			t.Errorf("%.80q passes as a reference", s)
		}
	}
}

package tools_test

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestTokenOf(t *testing.T) {
	for _, id := range []string{"a", "h_team", "h_abc2", "x y", "", "-a"} {
		if token := tools.Token(id); tools.TokenOf(id) != token || tools.TokenOf(token) != token {
			t.Errorf("%q: %s, %s, want %s", id, tools.TokenOf(id), tools.TokenOf(token), token)
		}
	}
}

func TestToken(t *testing.T) {
	for _, id := range []string{"a", "toolu_01AbC", "call-1", "_", "0", strings.Repeat("a", 64), "h", "x_h_"} {
		if got := tools.Token(id); got != id {
			t.Errorf("Token(%q) = %q, want it unchanged", id, got)
		}
	}
	for _, id := range []string{
		"", " ", "-a", ".", "..", "a.b", "*", ">", "a b", "a/b", `a\b`, "a\x00", "a\nb", "ä", "а", "h_", "h_x", "H_x",
		tools.Token("ä"), strings.Repeat("a", 65), strings.Repeat("a", tools.MaxIDLen), "\xff", "a:b", "$a",
	} {
		got := tools.Token(id)
		if got == id || !tools.IsToken(got) || !strings.HasPrefix(got, "h_") || got != strings.ToLower(got) {
			t.Errorf("Token(%.40q) = %q, want a hash token", id, got)
		}
	}
}

// Distinct ids have distinct tokens. Hash tokens are distinct also without regard to
// case; tokens that are their own ids are not.
func FuzzToken(f *testing.F) {
	for _, seed := range [][2]string{{"a", "b"}, {"", "h_"}, {"ä", tools.Token("ä")}, {"ä", strings.ToUpper(tools.Token("ä"))}, {"a", "A"}, {"H_", "h_"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := tools.Token(a), tools.Token(b)
		if !tools.IsToken(ta) {
			t.Errorf("Token(%q) = %q is no token", a, ta)
		}
		if (a == b) != (ta == tb) {
			t.Errorf("Token(%q) = %q, Token(%q) = %q", a, ta, b, tb)
		}
		if strings.EqualFold(ta, tb) && !strings.EqualFold(a, b) {
			t.Errorf("folded, the tokens of %q and %q are the same: %q, %q", a, b, ta, tb)
		}
		if tools.IsToken(a) && ta != a && !strings.EqualFold(a[:2], "h_") {
			t.Errorf("Token(%q) = %q, want the id itself", a, ta)
		}
	})
}

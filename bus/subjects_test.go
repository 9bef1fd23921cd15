package bus

import (
	"strings"
	"testing"
)

func TestCheckSubject(t *testing.T) {
	for subject, ok := range map[string]bool{
		"a":                            true,
		"stevedore.call.default.a-b_C": true,
		"":                             false,
		".":                            false,
		"a.":                           false,
		".a":                           false,
		"a..b":                         false,
		"a.*":                          false,
		"a.>":                          false,
		"a b":                          false,
		"a\tb":                         false,
		"a\r\nPUB x 0":                 false,
		"a\x00":                        false,
		"a.\xff":                       false,
		"a.ü":                          false,
		strings.Repeat("a", 1024):      true,
		strings.Repeat("a", 1025):      false,
	} {
		if err := CheckSubject(subject); (err == nil) != ok {
			t.Errorf("CheckSubject(%.40q) = %v, want ok %v", subject, err, ok)
		}
	}
}

// An accepted subject is safe in the protocol, and Split returns its tokens.
func FuzzCheckSubject(f *testing.F) {
	for _, seed := range []string{"a.b.c", "a.*", "a..b", "a b", "x\r\n", "ü", ">"} {
		f.Add(seed)
	}
	s, err := NewSubjects("")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		if CheckSubject(subject) != nil {
			return
		}
		if strings.ContainsAny(subject, " \t\r\n\x00*>") || len(subject) > maxSubjectLen {
			t.Fatalf("%q is accepted", subject)
		}
		tokens := s.Split(s.join(subject))
		for _, token := range tokens {
			if token == "" {
				t.Fatalf("%q has an empty token", subject)
			}
		}
		if got := strings.Join(tokens, "."); got != subject {
			t.Fatalf("got %q, want %q", got, subject)
		}
	})
}

func TestSplit(t *testing.T) {
	s, err := NewSubjects("my.prefix")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Split(s.Call("q", "tool", "s", "c")); len(got) != 5 || got[0] != "call" || got[2] != "tool" {
		t.Errorf("got %q", got)
	}
	for _, foreign := range []string{"", "my", "my.prefixx.call", "other.call.q.tool"} {
		if got := s.Split(foreign); got != nil {
			t.Errorf("Split(%q) = %q", foreign, got)
		}
	}
	if _, err := NewSubjects("a.>"); err == nil {
		t.Error("a wildcard is accepted as a prefix")
	}
}

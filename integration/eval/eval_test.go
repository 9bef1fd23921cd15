package eval

import (
	"strings"
	"testing"
)

// A model that follows the references gets the right answers for few tokens. Previews of tables and
// documents show no end, so a question about the end costs one more read.
func TestEval(t *testing.T) {
	offloaded, registry, err := offloadAll()
	if err != nil {
		t.Fatal(err)
	}
	scores, err := askPolicies(offloaded, registry, policies[:2])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scores {
		if s.asked != 60 || s.right < 58 || s.tokens/60 > 2_750 {
			t.Errorf("%s: %d of %d right for %d tokens per question; wrong: %s", s.name, s.right, s.asked, s.tokens/60, s.wrong)
		}
	}
}

// The alternative is as good as a shell makes it, so that the comparison is fair: grep counts
// matches in long lines and shows the part around them.
func TestFileAndGrep(t *testing.T) {
	for _, r := range generate(seed) {
		tools, err := fileTools(r.text)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range r.questions {
			s := &session{registry: tools, longLines: hasLongLines(r.text)}
			needsAll := strings.Contains(q.text, "sum") || strings.Contains(q.text, "highest")
			if right := fileAndGrep(s, q); right == needsAll {
				t.Errorf("%s: %s (%s): right is %v after\n%.500s", r.name, q.text, q.answer, right, s.read.String())
			}
		}
	}
}

// Only what a tool found is an answer: not its first line, and not its notes.
func TestAnswers(t *testing.T) {
	for _, row := range []struct {
		text, answer string
		counts, want bool
	}{
		{"Found 1 result(s) for query '.' in knowledge#a\n\n[\"x\",42]", "42", false, true},
		{"Found 2 result(s) for query '.' in knowledge#a\n\n[1]\n\n[the rest has 42]", "42", false, false},
		{"Found 1 result(s) for query '.a == 42' in knowledge#a\n\nfalse", "42", false, false},
		{"Found 42 match(es) for pattern 'x' in knowledge#a (50 total lines)\n1: x", "42", true, true},
		{"Found at least 42 match(es) for pattern 'x' in knowledge#a (50 total lines)\n1: x", "42", true, false},
		{"Found 7 match(es) for pattern 'x' in knowledge#a (42 total lines)\n1: x 42", "42", true, false},
		{"Lines 1-42 of 90 (knowledge_id: a):\n\nx 7", "42", false, false},
		{"Lines 1-3 of 90 (knowledge_id: a):\n\nx 42", "42", false, true},
		{"Lines 1-3 of 90 (knowledge_id: a):\n\nx 421", "42", false, false},
	} {
		q := question{answer: row.answer, counts: row.counts}
		if got := q.answers(row.text); got != row.want {
			t.Errorf("%q: %v", row.text, got)
		}
	}
}

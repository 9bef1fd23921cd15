package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A model that follows the references gets the right answers for few tokens.
func TestEval(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, func(string) string { return "" }, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "A real model was not asked: set ANTHROPIC_API_KEY") {
		t.Errorf("without a key:\n%s", out.String())
	}
	for _, name := range []string{"naive", "faulty arguments"} {
		found := regexp.MustCompile(`offloaded, ` + name + ` +(\d+) of 60 +\d+ +\d+ +(\d+) +1\d\d\d`).FindStringSubmatch(out.String())
		if found == nil {
			t.Fatalf("no line for %s:\n%s", name, out.String())
		}
		right, err1 := strconv.Atoi(found[1])
		tokens, err2 := strconv.Atoi(found[2])
		if err1 != nil || err2 != nil || right < 58 || tokens > 2_600 {
			t.Errorf("%s: %s of 60 right for %s tokens per question\n%s", name, found[1], found[2], out.String())
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

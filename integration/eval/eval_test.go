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
		found := regexp.MustCompile(`offloaded, ` + name + ` +(\d+) of 60 +\d+ +\d+ +(\d+)`).FindStringSubmatch(out.String())
		if found == nil {
			t.Fatalf("no line for %s:\n%s", name, out.String())
		}
		right, err1 := strconv.Atoi(found[1])
		tokens, err2 := strconv.Atoi(found[2])
		if err1 != nil || err2 != nil || right < 58 || tokens > 1_500 {
			t.Errorf("%s: %s of 60 right for %s tokens per question\n%s", name, found[1], found[2], out.String())
		}
	}
}

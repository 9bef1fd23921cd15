package shorten_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/shorten"
)

func TestSummarize(t *testing.T) {
	var run strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&run, "=== RUN Test%d\n", i+1)
	}
	run.WriteString("--- FAIL: TestX (0.01s)\n    x_test.go:7: want 1\nx.go:3:1: error: no\nnpm ERR! code 1\n  ✕ adds (5 ms)\n0 errors, no failures\n2 failed, 0 errors\nTerror and errorless\n")
	run.WriteString(strings.Repeat("quiet\n", 20) + "panic: boom\r\n" + "last, without a line feed")
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "error %d\n", i+1)
	}
	for name, test := range map[string]struct {
		output       string
		lines        int64
		shown, never []string
	}{
		"a test run": {
			run.String(), 1030,
			[]string{"=== RUN Test1\n", "=== RUN Test8\n[HOW]\n[lines that look like errors]\n1001: --- FAIL: TestX (0.01s)\n1003: x.go:3:1: error: no\n1004: npm ERR! code 1\n1005:   ✕ adds (5 ms)\n1007: 2 failed, 0 errors\n1029: panic: boom\n[the last lines]\nquiet\n", "panic: boom\nlast, without a line feed\n"},
			[]string{"Test9\n", "1006:", "1008:", "\r"},
		},
		"many errors": {many.String(), 100, []string{"[the first 8 of 92 lines that look like errors]\n9: error 9\n", "16: error 16\n[the last lines]\nerror 93\n"}, []string{"17: "}},
		"a long line": {strings.Repeat("é", 1<<20) + "\nend\n", 2, []string{"…\nend\n[HOW]\n"}, nil},
		"a long last": {"a\n" + strings.Repeat("x", 1<<20), 2, []string{"a\nxxx", "…\n[HOW]"}, nil},
		"bytes":       {"\x00\xff\x1b[31mred\x07\n\n\n", 3, []string{"red"}, []string{"\x1b", "\x07", "\x00"}},
		"nothing":     {"", 0, []string{"[HOW]"}, nil},
	} {
		s, err := shorten.Summarize(strings.NewReader(test.output))
		text := s.Text("HOW")
		if err != nil || s.Lines != test.lines || len(text) > 5000 {
			t.Errorf("%s: %d lines, %d bytes, %v; want %d lines", name, s.Lines, len(text), err, test.lines)
		}
		for _, want := range test.shown {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in:\n%s", name, want, text)
			}
		}
		for _, never := range test.never {
			if strings.Contains(text, never) {
				t.Errorf("%s: %q in:\n%s", name, never, text)
			}
		}
	}
}

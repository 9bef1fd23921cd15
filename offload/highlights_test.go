package offload

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHighlights: the preview of a log has the counts of its levels, and that of a test run or build what
// failed. Neither is longer than the preview of another text.
func TestHighlights(t *testing.T) {
	t.Parallel()
	lines := func(n int, format string) (text string) {
		for i := range n {
			text += fmt.Sprintf(format, i)
		}
		return text
	}
	for _, row := range []struct{ name, text, want string }{
		{"log", lines(300, "10:00:00 INFO served %d\n") + "10:00:01 \x1b[31mERROR\x1b[0m lost <knowledge>\n  at main\n" + lines(9, "10:00:02 WARN late %d\n"),
			"a log; its lines by level: 300 INFO, 1 ERROR, 9 WARN\n301: 10:00:01 ERROR lost <knowledge>\n10:00:00 INFO served 0\n"},
		{"logfmt", lines(100, "level=info msg=\"ERROR in a text\" n=%d\n") + "level=fatal msg=end\n",
			"a log; its lines by level: 100 INFO, 1 FATAL\n101: level=fatal msg=end\n"},
		{"tests", lines(90, "=== RUN   TestA%[1]d\n--- PASS: TestA%[1]d (0.00s)\n") + "--- FAIL: TestB (0.00s)\nFAIL\n",
			"lines that say what failed: 2; the first of them:\n181: --- FAIL: TestB (0.00s)\n182: FAIL\n=== RUN"},
		{"build", lines(90, "[%d] Building a.o\n") + "/src/a.cpp:12:5: error: no x\n" + lines(90, "[%d] Building an error handler\n"),
			"lines that say what failed: 1; the first of them:\n91: /src/a.cpp:12:5: error: no x\n"},
		{"recording", lines(90, "\r%d%%\r\x1b[K\x1b[1m\x1b[91merror[E1]\x1b[0m: x\r\r\nN\bNA\bA\x1b]0;title\r\r\n"),
			"lines that say what failed: 90; the first of them:\n1: error[E1]: x\n3: error[E1]: x\n5: error[E1]: x\n7: error[E1]: x\nerror[E1]: x\nNA\nerror"},
		{"prose", lines(200, "Text %d says that tests FAIL.\nAnother line names an error, and INFO.\nAnd more.\n"), "Text 0 says"},
		{"long lines", strings.Repeat("FAIL "+strings.Repeat("é", 50_000)+" x\n", 6), "lines that say what failed: 6; the first of them:\n1: FAIL é"},
		{"many", strings.Repeat("error: "+strings.Repeat("x", 300)+"\n", 20_000), "lines (the first 4 MiB) that say what failed: 13618; the first"},
	} {
		got, err := previewOf(strings.NewReader(row.text), int64(len(row.text)), int64(utf8.RuneCountInString(row.text)), int64(strings.Count(row.text, "\n")))
		if err != nil || !strings.HasPrefix(got, row.want) || utf8.RuneCountInString(got) > 2*previewRunes+100 {
			t.Errorf("%s: %v, %d characters\n%.600s\nwant\n%s", row.name, err, utf8.RuneCountInString(got), got, row.want)
		}
	}
}

package offload

import (
	"math"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// TestParseLines: each form in which models and people write lines has one meaning.
func TestParseLines(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		lines      any
		start, end int64
	}{
		{"10-20", 10, 20}, {"10–20", 10, 20}, {"10:20", 10, 20}, {"10..20", 10, 20}, {" 10 , 20 ", 10, 20}, {"[10, 20]", 10, 20}, {`"10-20"`, 10, 20},
		{"10-", 10, 0}, {"10–", 10, 0}, {"[10,null]", 10, 0}, {"10", 10, 10}, {"[10]", 10, 10}, {"-10", -10, 0}, {"–10", -10, 0}, {"-20--5", -20, -5},
		{10, 10, 10}, {10.0, 10, 10}, {-10, -10, 0}, {[]any{10, 20}, 10, 20}, {[]any{10}, 10, 10}, {[]any{10, nil}, 10, 0}, {[]any{-20, -5}, -20, -5},
	} {
		if got, err := ParseLines(row.lines); err != nil || got != (LinesQuery{StartLine: row.start, EndLine: row.end}) {
			t.Errorf("%v is %+v, %v; want %d to %d", row.lines, got, err, row.start, row.end)
		}
	}
	for _, lines := range []any{
		"", "-", "–", ":", ":10", "a", "10-b", "10 20", "0", "--10", "0-5", "5-0", "1-2-3", "99999999999999999999", "[null]", "[null,5]",
		nil, true, 1.5, []any{}, []any{1, 2, 3}, []any{"x"}, map[string]any{"start": 1}, math.Inf(1),
	} {
		if got, err := ParseLines(lines); tools.CodeOf(err) != tools.CodeInvalidArguments {
			t.Errorf("%v is %+v, %v", lines, got, err)
		}
	}
}

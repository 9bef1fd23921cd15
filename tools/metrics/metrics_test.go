package metrics

import (
	"fmt"
	"strings"
	"testing"
)

func text(t *testing.T, g *Gauges) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	c := NewCounter("test_calls_total", "Calls.", "queue", "tool")
	c.Add(1, "default", "shell")
	c.Add(2, "default", "shell")
	c.Add(-5, "default", "shell") // a counter never falls
	c.Add(1, "q", "a\"b\\c\nd\xff")
	h := NewHistogram("test_wait_seconds", "Wait.", []float64{0.1, 1}, "queue")
	for _, v := range []float64{0.1, 0.5, 3, -1} {
		h.Observe(v, "default")
	}
	NewHistogram("test_plain_seconds", "Plain.", []float64{1}).Observe(2)
	g := new(Gauges)
	g.Set("test_fill_ratio", "Fill.", 0.5, "stream", "A")
	g.Set("test_up", "Up.", 1)
	g.Set("test_fill_ratio", "Fill.", 0.25, "stream", "B") // one head for both
	got := text(t, g)
	for _, want := range []string{
		"# HELP test_calls_total Calls.\n# TYPE test_calls_total counter\ntest_calls_total{queue=\"default\",tool=\"shell\"} 3\n",
		`test_calls_total{queue="q",tool="a\"b\\c\nd` + "\uFFFD\"} 1\n",
		"# TYPE test_wait_seconds histogram\ntest_wait_seconds_bucket{queue=\"default\",le=\"0.1\"} 2\ntest_wait_seconds_bucket{queue=\"default\",le=\"1\"} 3\ntest_wait_seconds_bucket{queue=\"default\",le=\"+Inf\"} 4\ntest_wait_seconds_sum{queue=\"default\"} 3.6\ntest_wait_seconds_count{queue=\"default\"} 4\n",
		"test_plain_seconds_bucket{le=\"1\"} 0\ntest_plain_seconds_bucket{le=\"+Inf\"} 1\ntest_plain_seconds_sum 2\n",
		"# TYPE test_fill_ratio gauge\ntest_fill_ratio{stream=\"A\"} 0.5\ntest_fill_ratio{stream=\"B\"} 0.25\n# HELP test_up Up.\n# TYPE test_up gauge\ntest_up 1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// Names from outside make a bounded number of series.
func TestSeriesAreBounded(t *testing.T) {
	c := NewCounter("test_bounded_total", "Bounded.", "tool")
	c.Add(1, strings.Repeat("x", maxValue+1))
	for i := range 3 * maxSeries {
		c.Add(1, fmt.Sprint("tool", i))
	}
	got := text(t, new(Gauges))
	if n := strings.Count(got, "test_bounded_total{"); n > maxSeries+1 {
		t.Errorf("%d series, want at most %d", n, maxSeries+1)
	}
	if want := fmt.Sprintf("test_bounded_total{tool=%q} %d\n", Other, 1+2*maxSeries+1); !strings.Contains(got, want) {
		t.Errorf("no %q", want)
	}
}

// Every metric of the process has a help text.
func TestProcessHasHelp(t *testing.T) {
	var b strings.Builder
	if err := WriteProcess(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "# HELP go_goroutines The ") || !strings.Contains(got, "# TYPE go_goroutines gauge\n") {
		t.Errorf("got:\n%s", got)
	}
}

package describe

import "testing"

func TestMisorders(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"web-9", "web-10", true}, {"web-10", "web-9", true}, {"web-1", "web-10", false}, {"web-09", "web-10", false},
		{"1.9.2", "1.10.0", true}, {"go1.9", "go1.10", true}, {"10.0.0.9", "10.0.0.10", true}, {"9:10", "12:05", true},
		{"Q4 2024", "Q1 2025", true}, {"Q1 2024", "Q4 2024", false}, {"W9 2024", "W10 2024", true}, {"2024-Q4", "2025-Q1", false},
		{"web-9", "db-10", false}, {"web-9", "web-10a", false}, {"web-9", "web-9", false}, {"007", "7", false}, {"", "9", false},
		{"Apr", "Jan", true}, {"january", "December", true}, {"Mar", "May", false}, {"Mon", "Fri", true}, {"high", "low", true}, {"critical", "medium", true},
		{"low", "Mon", false}, {"lo", "hi", false}, {"March", "Mar", false}, {"lower", "high", false},
		{"2025-09-30", "2025-10-01", false}, {"Saturday 9", "Saturday 10", true},
	} {
		if got := Misorders(test.a, test.b); got != test.want {
			t.Errorf("Misorders(%q, %q) = %v", test.a, test.b, got)
		}
		if Misorders(test.a, test.b) != Misorders(test.b, test.a) {
			t.Errorf("%q and %q: not the same the other way round", test.a, test.b)
		}
	}
	if got := string(AppendForm(nil, "Q1 2025.txt")); got != "Q0 0.txt" {
		t.Error(got)
	}
}

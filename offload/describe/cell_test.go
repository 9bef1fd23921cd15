package describe

import (
	"fmt"
	"testing"
)

// TestCells: numbers and dates are recognized in the forms in which people write them, and nothing
// else is.
func TestCells(t *testing.T) {
	for text, want := range map[string]string{
		"1,234.50": "|1234.50|", "1.234,50": "||1234.50", "1,234": "|1234|1.234", "1.234": "|1.234|1234", "12,5": "||12.5", "0,125": "||0.125",
		"1,234,567": "|1234567|", "1 234 567,5": "||1234567.5", "1'234.5": "|1234.5|", "€5.00": "€|5.00|", "5,00 €": "€||5.00", "US$1": "US$|1|1",
		"CHF 1'000": "CHF|1000|1000", "-$5": "$|-5|-5", "$-5": "$|-5|-5", "($5.00)": "$|-5.00|", "\u22125,5": "||-5.5", "+7": "|7|7", "12.5%": "%|12.5|",
		"9 ms": "ms|9|9", "12,34,567": "none", "1,23": "||1.23", "1,,234": "none", "1.2.3": "none", "10.0.0.1": "none", "9 apples": "none", "v1": "none",
		"3 of 4": "none", "1-2": "none", "--5": "none", "$5%": "none", "007": "none", "00,5": "none", "5.": "none", "": "none", "1e5": "none", "€": "none",
		"(5": "none", "12:30": "none",
	} {
		got := "none"
		if n, ok := ParseNumber(text); ok {
			got = n.Unit + "|" + n.Point + "|" + n.Comma
		}
		if got != want {
			t.Errorf("the number %q is %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"2025-01-31": "1", "2025-01-31T10:00:00.5Z": "1", "2025-01-31 10:00 UTC": "1", "2025/1/31": "2", "1/31/2025": "4", "31/1/2025": "8", "1/2/2025": "12",
		"31.1.2025": "8", "31-01-2025": "8", "31 Jan 2025": "16", "Jan 31, 2025": "16", "31-Jan-2025": "16", "January 31, 2025": "16", "1/31/2025 3:04 PM": "4",
		"1/31/25": "0", "2025-02-30": "none", "32/1/2025": "none", "1/2": "none", "2025-01-31x": "none", "10.0.0.1": "none", "1/2/2025 text": "none",
		"Marble, 5": "none", "12 Monkeys": "none",
	} {
		got := "none"
		if orders, ok := ParseDate(text); ok {
			got = fmt.Sprint(int(orders))
		}
		if got != want {
			t.Errorf("the date %q is %s, want %s", text, got, want)
		}
	}
	if got := ISODate("31/1/2025 14:05", DayMonth); got != "2025-01-31 14:05:00" {
		t.Errorf("the date is %s", got)
	}
}

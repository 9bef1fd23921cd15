package describe

import (
	"strings"
	"time"
)

// Order is in which order a date has its parts. Their sum says which orders a date may have.
type Order int

// Orders of dates.
const (
	ISO       Order = 1 << iota // 2025-01-31, also with a time
	YearFirst                   // 2025/1/31
	MonthDay                    // 1/31/2025
	DayMonth                    // 31/1/2025, 31.1.2025
	Named                       // 31 Jan 2025, Jan 31, 2025
)

// layouts are those of the orders, for package time. Those of a number accept one digit, too.
var layouts = map[Order][]string{
	YearFirst: {"2006/1/2", "2006.1.2"},
	MonthDay:  {"1/2/2006", "1-2-2006"},
	DayMonth:  {"2/1/2006", "2-1-2006", "2.1.2006"},
	Named:     {"2 Jan 2006", "2-Jan-2006", "Jan 2, 2006", "2 January 2006", "January 2, 2006"},
}

// clocks are the layouts of times behind a date.
var clocks = []string{"15:04:05", "15:04", "3:04:05 PM", "3:04 PM"}

// ParseDate returns in which orders a cell is a date. ok is true and orders 0 for a date whose year
// has two digits.
func ParseDate(text string) (orders Order, ok bool) {
	if len(text) < 6 || len(text) > 40 {
		return 0, false
	}
	if IsISO(text) {
		return ISO, true
	}
	for _, order := range []Order{YearFirst, MonthDay, DayMonth, Named} {
		if iso(text, order) != "" {
			orders |= order
		}
	}
	if orders != 0 {
		return orders, true
	}
	for _, layout := range []string{"1/2/06", "2/1/06", "2.1.06"} {
		if _, err := time.Parse(layout, text); err == nil {
			return 0, true
		}
	}
	return 0, false
}

// IsISO reports whether a text begins with a date as ISO 8601 has it.
func IsISO(text string) bool {
	if len(text) < 10 || text[4] != '-' || text[7] != '-' || len(text) > 10 && text[10] != 'T' && text[10] != ' ' {
		return false
	}
	_, err := time.Parse(time.DateOnly, text[:10])
	return err == nil && (len(text) == 10 || strings.Trim(text[11:], "0123456789:.,+-ZUTC ") == "")
}

// ISODate returns a date of an order in the form of ISO 8601, which sorts as text, or "".
func ISODate(text string, order Order) string {
	if IsISO(text) {
		return text
	}
	return iso(text, order)
}

func iso(text string, order Order) string {
	if !mayBe(text, order) {
		return ""
	}
	fields := strings.Fields(text)
	for _, layout := range layouts[order] {
		words := strings.Count(layout, " ") + 1
		if len(fields) < words {
			continue
		}
		day, err := time.Parse(layout, strings.Join(fields[:words], " "))
		if err != nil {
			continue
		}
		if len(fields) == words {
			return day.Format(time.DateOnly)
		}
		for _, clock := range clocks {
			if at, err := time.Parse(clock, strings.Join(fields[words:], " ")); err == nil {
				return day.Format(time.DateOnly) + at.Format(" 15:04:05")
			}
		}
	}
	return ""
}

// mayBe reports whether a text begins like a date of an order. It saves the time of parsing texts.
func mayBe(text string, order Order) bool {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if order != Named {
		return digits > 0 && digits < 5 && (digits == 4) == (order == YearFirst) && digits < len(text) && strings.IndexByte("/.-", text[digits]) >= 0
	}
	month := text
	if digits > 0 && digits < 3 {
		month = strings.TrimLeft(text[digits:], " -")
	}
	return len(month) > 3 && strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", month[:3])%3 == 0
}

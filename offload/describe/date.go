package describe

import (
	"slices"
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
	Named:     {"2 Jan 2006", "2-Jan-2006", "2/Jan/2006", "Jan 2, 2006", "Jan 2 2006", "2 January 2006", "January 2, 2006"},
}

// clocks are the layouts of times behind a date.
var clocks = []string{"15:04:05", "15:04", "3:04:05 PM", "3:04 PM"}

// ParseDate returns in which orders a cell is a date. ok is true and orders 0 for a date whose year
// has two digits, for a month, and for a date with names and a zone other than UTC.
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
	if end := strings.LastIndexByte(text, ' '); end > 6 && end >= len(text)-6 && strings.ContainsAny(text[end+1:min(end+2, len(text))], "+-CEMP") { // such as +0100, CET
		return 0, IsISO(text[:end]) || iso(text[:end], Named) != ""
	}
	if n := digits(text); n > 2 || len(text) > 14 || n == 0 && !mayBe(text, Named) {
		return 0, false
	}
	return 0, slices.ContainsFunc([]string{"1/2/06", "2/1/06", "2.1.06", "Jan-06", "Jan-2006", "Jan 2006", "January 2006"}, func(layout string) bool {
		_, err := time.Parse(layout, text)
		return err == nil
	})
}

// IsISO reports whether a text begins with a date as ISO 8601 has it.
func IsISO(text string) bool {
	if len(text) < 10 || text[4] != '-' || text[7] != '-' || len(text) > 10 && text[10] != 'T' && text[10] != ' ' ||
		digits(text) != 4 || digits(text[5:]) != 2 || digits(text[8:]) != 2 {
		return false
	}
	if month, day := text[5:7], text[8:10]; month < "01" || month > "12" || day < "01" || day > "28" {
		if _, err := time.Parse(time.DateOnly, text[:10]); err != nil {
			return false
		}
	}
	return len(text) == 10 || strings.Trim(text[11:], "0123456789:.,+-ZUTC ") == ""
}

// Clock is the form of the time behind a date of ISO 8601. Times of one form sort as text.
type Clock struct {
	Zone      string
	separator byte
	// length is that of the time before "Z", which is greater than each digit and point.
	length int
	Odd    bool // SQLite does not read it: 10:00:00,5 or +0200
}

// ClockOf returns the form of the time in a text for which IsISO is true.
func ClockOf(text string) (c Clock) {
	if len(text) < 12 {
		return c
	}
	c.separator, c.Odd = text[10], strings.IndexByte(text, ',') > 0
	if at := strings.IndexAny(text[11:], "+-ZU"); at >= 0 {
		if c.Zone = text[11+at:]; c.Zone == "Z" {
			c.length = at
		} else if len(c.Zone) != 6 || c.Zone[3] != ':' {
			c.Odd = true
		}
	}
	return c
}

// SortsWith reports whether a text of a date, or of its start, sorts among times such as one.
func SortsWith(text, one string) bool {
	if len(text) < 12 || !IsISO(text) {
		return len(text) < 11
	}
	a, b := ClockOf(text), ClockOf(one)
	return a.separator == b.separator && (a.Zone == "" || a.Zone == b.Zone)
}

// FormOf returns the form of a time of ISO 8601: its text with 0 in place of the digits, and with its zone.
func FormOf(text string) string {
	zone := ClockOf(text).Zone
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0'
		}
		return r
	}, strings.TrimSuffix(text, zone)) + zone
}

// Regular returns a time of ISO 8601 in the form that SQLite reads: 10:00:00.5 and +02:00.
func Regular(text string) string {
	zone := ClockOf(text).Zone
	text = strings.Replace(strings.TrimSuffix(text, zone), ",", ".", 1)
	if short := strings.TrimSuffix(zone, " UTC"); (len(short) == 3 || len(short) == 5) && short[0] != 'U' { // +02, +0200, +0000 UTC
		zone = short[:3] + ":" + (short[3:] + "00")[:2]
	}
	return text + strings.Replace(zone, "UTC", "Z", 1)
}

// zoned are the layouts of times with a zone, without spaces.
var zoned = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05", "2006-01-02T15:04"}

// UTC returns a time of ISO 8601 in UTC without the zone, so that times sort as text.
func UTC(text string) string {
	compact := text[:10] + "T" + strings.NewReplacer(" ", "", "UTC", "Z").Replace(text[11:])
	for _, layout := range zoned {
		if at, err := time.Parse(layout, compact); err == nil {
			return at.UTC().Format("2006-01-02T15:04:05.999999999")
		}
	}
	return text
}

// ISODate returns a date of an order in the form of ISO 8601, which sorts as text, or "".
func ISODate(text string, order Order) string {
	if IsISO(text) {
		return text
	}
	return iso(text, order)
}

func iso(text string, order Order) string {
	if day, rest, ok := strings.Cut(text, " "); ok && order == Named && len(day) > 2 && strings.Index("MonTueWedThuFriSatSun", day[:3])%3 == 0 {
		text = strings.TrimLeft(rest, " ")
	}
	for _, zone := range []string{" GMT", " UTC", " +0000"} {
		if order == Named {
			text = strings.TrimSuffix(text, zone)
		}
	}
	if order == Named && strings.Count(text, "/") == 2 { // 31/Jan/2025:15:04:05, as web servers print it
		text = strings.Replace(text, ":", " ", 1)
	}
	if !mayBe(text, order) {
		return ""
	}
	fields := strings.Fields(text)
	if n := len(fields); order == Named && n == 4 && len(fields[3]) == 4 { // Jan 31 15:04:05 2025, as date and ctime print it
		fields[2], fields[3] = fields[3], fields[2]
	}
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
	digits := digits(text)
	if order != Named {
		return digits > 0 && digits < 5 && (digits == 4) == (order == YearFirst) && digits < len(text) && strings.IndexByte("/.-", text[digits]) >= 0
	}
	month := text
	if digits > 0 && digits < 3 {
		month = strings.TrimLeft(text[digits:], " -/")
	}
	return len(month) > 3 && strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", month[:3])%3 == 0
}

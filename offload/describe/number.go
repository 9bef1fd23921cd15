package describe

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Number is a cell that is a number in a form for people, such as "€1,234.50", "(7,5)" or "12 %".
type Number struct {
	Unit string // a currency, "%", or one of units
	// Point is the number if a point precedes its decimals, and Comma if a comma does. An empty one
	// is no number: "1,234.50" has no Comma, and "1,234" has both.
	Point, Comma string
}

// units are those that a number may have behind it.
var units = strings.Fields("% ns us \u00b5s ms s sec min h hrs d B kB KB MB GB TB KiB MiB GiB TiB Hz kHz MHz GHz px mm cm km kg g mg l ml " +
	"V W kW kWh mAh \u00b0C \u00b0F x")

// maxPlus is how many characters of a number may follow a plus.
const maxPlus = 7

// ParseNumber parses a cell that is not how programs print a number.
func ParseNumber(text string) (n Number, ok bool) {
	if len(text) > 40 || !strings.ContainsAny(text, "0123456789") {
		return n, false
	}
	text = strings.TrimSpace(text)
	sign := ""
	if inner, closed := strings.CutSuffix(text, ")"); closed && strings.HasPrefix(text, "(") { // of accountants
		sign, text = "-", inner[1:]
	}
	cutSign := func() bool {
		r, size := utf8.DecodeRuneInString(text)
		if r == '-' || r == '\u2212' {
			sign += "-"
		} else if r != '+' {
			return false
		}
		text = text[size:]
		return true
	}
	plus := strings.HasPrefix(text, "+")
	signed := cutSign()
	digit := strings.IndexAny(text, "0123456789")
	before := strings.TrimSpace(text[:digit])
	if text = text[digit:]; !signed {
		if unsigned := strings.TrimRight(before, "-"); unsigned != before {
			sign, before = sign+"-", unsigned
		}
	}
	end := strings.LastIndexAny(text, "0123456789") + 1
	after := strings.TrimSpace(text[end:])
	switch n.Unit = before + after; {
	case len(sign) > 1, before != "" && (after != "" || !IsCurrency(before)):
		return n, false
	case plus && len(text) > maxPlus: // of a phone
		return n, false
	case after != "" && !IsCurrency(after) && !slices.Contains(units, after):
		return n, false
	}
	if n.Point = plain(text[:end], '.', ','); n.Point != "" {
		n.Point = sign + n.Point
	}
	if n.Comma = plain(text[:end], ',', '.'); n.Comma != "" {
		n.Comma = sign + n.Comma
	}
	return n, n.Point+n.Comma != ""
}

// IsCurrency reports whether a text is the sign of a currency, such as "US$", or its code.
func IsCurrency(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	upper := func(r rune) bool { return r < 'A' || r > 'Z' }
	return unicode.Is(unicode.Sc, last) && len(text) < 8 || len(text) == 3 && !strings.ContainsFunc(text, upper)
}

// plain returns a number as programs print it, or "" if it has another form. Its decimals follow the
// character decimal, and group or a space or an apostrophe is between groups of three digits.
func plain(text string, decimal, group rune) string {
	whole, decimals, fraction := strings.Cut(text, string(decimal))
	var digits strings.Builder
	separator, run := rune(0), 0
	for _, r := range whole {
		switch {
		case r >= '0' && r <= '9':
			digits.WriteRune(r)
			run++
			continue
		case r != group && !strings.ContainsRune(" '\u00a0\u202f\u2019", r), separator != 0 && (r != separator || run != 3), run > 3 || run == 0:
			return ""
		}
		separator, run = r, 0
	}
	if separator != 0 && (run != 3 || whole[0] == '0') || digits.Len() == 0 || digits.Len() > 15 || whole[0] == '0' && digits.Len() > 1 {
		return ""
	}
	if fraction {
		if decimals == "" || strings.Trim(decimals, "0123456789") != "" {
			return ""
		}
		digits.WriteString("." + decimals)
	}
	return digits.String()
}

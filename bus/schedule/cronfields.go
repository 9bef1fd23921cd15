package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronField is one field of an expression, as the parser of nats-server (cron.go)
// defines it.
type cronField struct {
	name     string
	min, max int
	words    []string // for the numbers from min
}

// cronLayout is the order of an expression's six fields.
func cronLayout() [6]cronField {
	return [6]cronField{
		{"second", 0, 59, nil},
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of the month", 1, 31, nil},
		{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{"weekday", 0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// canonical returns the field in a form that the server and gronx, which computes
// the next times, interpret in the same way: in numbers, with Sunday as 0, and with
// steps on ranges only. For "*/2" in a field of days, one of them requires both
// fields of days to match, the other only one.
func (f cronField) canonical(text string) (string, error) {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		from, to, step, err := f.parse(part)
		if err != nil {
			return "", fmt.Errorf("%s %q: %w", f.name, text, err)
		}
		if every := part[0] == '*' || part[0] == '?'; every && step == 1 {
			return "*", nil
		}
		if to == 7 && f.name == "weekday" { // also Sunday
			for day := from; day <= to; day += step {
				out = append(out, strconv.Itoa(day%7))
			}
			continue
		}
		switch {
		case from == to:
			out = append(out, strconv.Itoa(from))
		case step == 1:
			out = append(out, fmt.Sprintf("%d-%d", from, to))
		default:
			out = append(out, fmt.Sprintf("%d-%d/%d", from, to, step))
		}
	}
	return strings.Join(out, ","), nil
}

// parse decodes a value, a range or a star, with or without a step.
func (f cronField) parse(part string) (from, to, step int, err error) {
	span, every, stepped := strings.Cut(part, "/")
	step = 1
	if stepped {
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			return 0, 0, 0, fmt.Errorf("the step %q is not a number of at least 1", every)
		}
		step = min(step, f.max+1) // a larger step has the same effect but may overflow
	}
	if span == "*" || span == "?" {
		return f.min, f.max, step, nil
	}
	low, high, ranged := strings.Cut(span, "-")
	if from, err = f.number(low); err != nil {
		return 0, 0, 0, err
	}
	to = from
	if ranged {
		if to, err = f.number(high); err != nil {
			return 0, 0, 0, err
		}
	} else if stepped {
		to = f.max
	}
	if from > to {
		return 0, 0, 0, fmt.Errorf("the range %q ends before it begins", span)
	}
	return from, to, step, nil
}

func (f cronField) number(text string) (int, error) {
	if i := slices.Index(f.words, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := strconv.Atoi(text)
	if err == nil && n >= f.min && (n <= f.max || n == 7 && f.name == "weekday") {
		return n, nil
	}
	known := fmt.Sprintf("%d to %d", f.min, f.max)
	if f.words != nil {
		known += fmt.Sprintf(" or %s to %s", f.words[0], f.words[len(f.words)-1])
	}
	return 0, fmt.Errorf("%q is not known; want %s, lists, ranges and steps (not L, W or #)", text, known)
}

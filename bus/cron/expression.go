package cron

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// parser is the origin of the server's parser, so both understand an expression alike.
var parser = robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)

// expressionFields are the fields that an expression has after its second.
var expressionFields = []struct{ name, values string }{
	{"second", "0 to 59"}, {"minute", "0 to 59"}, {"hour", "0 to 23"}, {"day of the month", "1 to 31"},
	{"month", "1 to 12 or jan to dec"}, {"weekday", "0 to 7 or sun to sat"},
}

// fieldForm rejects what the parser accepts in another meaning, such as "*-5".
var fieldForm = lazyregexp.New(`^(([*?]|\w+(-\w+)?)(/\d+)?(,|$))+$`)

// maxExpression is longer than a list of all sixty minutes and all sixty seconds.
const maxExpression = 1000

var nicknames = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
	"@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}

// serverExpression returns an expression with six fields, as the server wants it.
func serverExpression(expr string) (string, error) {
	if known := nicknames[strings.TrimSpace(expr)]; known != "" {
		return known, nil
	}
	if len(expr) > maxExpression {
		return "", fmt.Errorf("cron expression %.80q...: it has %d characters; at most %d are accepted", expr, len(expr), maxExpression)
	}
	fields := strings.Fields(expr)
	if len(fields) == 5 {
		fields = slices.Insert(fields, 0, "0")
	}
	if len(fields) != 6 {
		return "", fmt.Errorf("cron expression %q: it has %d fields; want 5 (minute hour day month weekday), such as \"30 9 * * 1-5\", or "+
			"6 with seconds first", expr, len(fields))
	}
	fields[5] = sundayIs0(fields[5])
	for i, f := range expressionFields {
		alone := slices.Repeat([]string{"*"}, len(fields))
		alone[i] = fields[i]
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil || !fieldForm.MatchString(fields[i]) || strings.HasSuffix(fields[i], ",") {
			return "", fmt.Errorf("cron expression %q: %s %q: want %s, lists, growing ranges and steps (not L, W or #)",
				expr, f.name, fields[i], f.values)
		}
	}
	return strings.Join(fields, " "), nil
}

// sundayIs0 replaces 7 in a field of weekdays.
func sundayIs0(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		if low, ok := strings.CutSuffix(part, "-7"); ok {
			parts[i] = low + "-6,0"
		} else if part == "7" {
			parts[i] = "0"
		}
	}
	return strings.Join(parts, ",")
}

// dueTimes are the times of an expression in a zone.
type dueTimes struct {
	times robfig.Schedule
	zone  *time.Location
}

func (j Job) dueTimes() (dueTimes, error) {
	zone, err := j.location()
	if err != nil {
		return dueTimes{}, err
	}
	fields, err := serverExpression(j.Cron)
	if err != nil {
		return dueTimes{}, err
	}
	times, err := parser.Parse(fields)
	return dueTimes{times, zone}, err
}

// after returns the first due time after t, or zero if the next five years have none.
func (d dueTimes) after(t time.Time) time.Time { return d.times.Next(t.In(d.zone)) }

// before returns the last due time before next, which is one too. If next is none, or if the years
// before it have none, before returns next.
func (d dueTimes) before(next time.Time) time.Time {
	isEarly := func(from time.Time) bool { // a due time follows that is before next
		due := d.after(from)
		return !due.IsZero() && due.Before(next)
	}
	from := next
	for back := time.Minute; !isEarly(from); back *= 2 {
		if from = next.Add(-back); back > 10*year {
			return next
		}
	}
	late := sort.Search(int(next.Sub(from)/time.Second), func(i int) bool { return !isEarly(from.Add(time.Duration(i) * time.Second)) })
	due := d.after(from.Add(time.Duration(late-1) * time.Second))
	if !d.after(due).Equal(next) {
		return next
	}
	return due
}

func (j Job) location() (*time.Location, error) {
	switch j.TimeZone {
	case "":
		return time.UTC, nil
	case "Local":
		return nil, errors.New(`time zone "Local": use a name such as "Europe/Berlin", because the server may be in another zone`)
	}
	loc, err := time.LoadLocation(j.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: it is not known; want one such as \"Europe/Berlin\"", j.TimeZone)
	}
	return loc, nil
}

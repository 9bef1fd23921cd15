package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

const (
	year = 366 * 24 * time.Hour
	// maxSpan limits times and intervals. A time after the year 2262 overflows 64
	// bits of nanoseconds; the server takes it for the past and fires at once.
	maxSpan = 100 * year
)

// pattern returns s in the syntax of the server.
func (s Schedule) pattern() (string, error) {
	set := 0
	for _, is := range []bool{s.Every != 0, s.Cron != "", !s.At.IsZero()} {
		if is {
			set++
		}
	}
	if set != 1 {
		return "", errors.New("want exactly one of an interval, a cron expression and a time")
	}
	if s.TimeZone != "" && s.Cron == "" {
		return "", errors.New("a time zone goes with a cron expression only")
	}
	switch {
	case s.Every != 0:
		if s.Every < minEvery || s.Every%time.Second != 0 {
			return "", fmt.Errorf("interval %s: want whole seconds, at least %s", s.Every, minEvery)
		}
		if s.Every > maxSpan {
			return "", fmt.Errorf("interval %s: want %d years at most", s.Every, maxSpan/year)
		}
		return "@every " + s.Every.String(), nil
	case s.Cron != "":
		return s.cronPattern()
	case time.Until(s.At) > maxSpan:
		return "", fmt.Errorf("the time %s: want one within %d years", s.At.UTC().Format(time.RFC3339), maxSpan/year)
	}
	return "@at " + s.At.UTC().Format(time.RFC3339Nano), nil
}

func (s Schedule) cronPattern() (string, error) {
	if _, err := s.location(); err != nil {
		return "", err
	}
	fields, err := cronFields(s.Cron)
	if err != nil {
		return "", err
	}
	// The seventh field is the year for gronx; without it, six fields are ambiguous.
	if expr := fields + " *"; !gronx.IsValid(expr) {
		return "", fmt.Errorf("cron expression %q: the syntax is not valid", s.Cron)
	}
	if s.next(time.Time{}, time.Now()).IsZero() {
		return "", fmt.Errorf("cron expression %q: it is never due", s.Cron)
	}
	return fields, nil
}

func (s Schedule) location() (*time.Location, error) {
	switch s.TimeZone {
	case "":
		return time.UTC, nil
	case "Local":
		return nil, errors.New(`time zone "Local": use a name such as "Europe/Berlin", because the server may be in another zone`)
	}
	loc, err := time.LoadLocation(s.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: it is not known; want one such as \"Europe/Berlin\"", s.TimeZone)
	}
	return loc, nil
}

// maxCron is longer than a list of all sixty minutes and all sixty seconds.
const maxCron = 1000

// cronFields returns an expression in its canonical form, with six fields.
func cronFields(expr string) (string, error) {
	switch strings.TrimSpace(expr) {
	case "@yearly", "@annually":
		return "0 0 0 1 1 *", nil
	case "@monthly":
		return "0 0 0 1 * *", nil
	case "@weekly":
		return "0 0 0 * * 0", nil
	case "@daily", "@midnight":
		return "0 0 0 * * *", nil
	case "@hourly":
		return "0 0 * * * *", nil
	}
	if len(expr) > maxCron {
		return "", fmt.Errorf("cron expression %.80q...: it has %d characters; at most %d are accepted", expr, len(expr), maxCron)
	}
	fields := strings.Fields(expr)
	switch len(fields) {
	case 5:
		fields = append([]string{"0"}, fields...)
	case 6:
	default:
		return "", fmt.Errorf("cron expression %q: it has %d fields; want 5 (minute hour day month weekday), such as \"30 9 * * 1-5\", or "+
			"6 with seconds first", expr, len(fields))
	}
	for i, field := range cronLayout() {
		canonical, err := field.canonical(fields[i])
		if err != nil {
			return "", fmt.Errorf("cron expression %q: %w", expr, err)
		}
		fields[i] = canonical
	}
	return strings.Join(fields, " "), nil
}

// next returns the first time after a time at which s is due, or zero. Intervals
// count from since, the time of Put.
func (s Schedule) next(since, after time.Time) time.Time {
	switch {
	case s.Every > 0:
		since = since.Round(time.Second) // as the server does
		if after.Before(since) {
			return since.Add(s.Every)
		}
		return since.Add((after.Sub(since)/s.Every + 1) * s.Every)
	case s.Cron != "":
		fields, err := cronFields(s.Cron)
		loc, zoneErr := s.location()
		if err != nil || zoneErr != nil {
			return time.Time{}
		}
		next, err := gronx.NextTickAfter(fields+" *", after.In(loc), false)
		if err != nil {
			return time.Time{}
		}
		return next
	case s.At.After(after):
		return s.At
	}
	return time.Time{}
}

// parsePattern decodes the result of pattern. It returns an empty schedule for an
// interval or time that another client wrote in a different form.
func parsePattern(pattern, zone string) Schedule {
	if every, ok := strings.CutPrefix(pattern, "@every "); ok {
		d, _ := time.ParseDuration(every)
		return Schedule{Every: d}
	}
	if at, ok := strings.CutPrefix(pattern, "@at "); ok {
		t, _ := time.Parse(time.RFC3339, at)
		return Schedule{At: t}
	}
	return Schedule{Cron: pattern, TimeZone: zone}
}

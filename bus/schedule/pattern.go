package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
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
	times, err := s.dueTimes()
	if err != nil {
		return "", err
	}
	if times.after(time.Now()).IsZero() {
		return "", fmt.Errorf("cron expression %q: it is never due", s.Cron)
	}
	return serverExpression(s.Cron)
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
		times, err := s.dueTimes()
		if err != nil {
			return time.Time{}
		}
		return times.after(after)
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

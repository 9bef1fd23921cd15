package cron

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// minEvery is the shortest interval that the server supports.
	minEvery = time.Second

	year = 366 * 24 * time.Hour
	// maxSpan limits times and intervals. A time after the year 2262 overflows 64
	// bits of nanoseconds; the server takes it for the past and fires at once.
	maxSpan = 100 * year
)

// ValidateTimes returns an error if the times of j are not valid.
func (j Job) ValidateTimes() error {
	_, err := j.pattern()
	return err
}

// DueAfter returns the next n times at which j is due after a time, or fewer if
// there are no more. An interval counts from after.
func (j Job) DueAfter(after time.Time, n int) []time.Time {
	var times []time.Time
	for next := j.next(after, after); len(times) < n && !next.IsZero(); next = j.next(after, next) {
		times = append(times, next)
	}
	return times
}

// When describes in words when j is due.
func (j Job) When() string {
	switch {
	case j.Every > 0:
		return "every " + formatInterval(j.Every)
	case !j.At.IsZero():
		return "at " + j.At.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("cron %q in %s", j.Cron, cmp.Or(j.TimeZone, "UTC"))
}

// formatInterval formats an interval as people write it: 1h, not 1h0m0s.
func formatInterval(d time.Duration) string {
	text := d.String()
	if minutes, ok := strings.CutSuffix(text, "m0s"); ok {
		text = minutes + "m"
	}
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		text = hours + "h"
	}
	return text
}

// pattern returns the times of j in the syntax of the server.
func (j Job) pattern() (string, error) {
	set := 0
	for _, is := range []bool{j.Every != 0, j.Cron != "", !j.At.IsZero()} {
		if is {
			set++
		}
	}
	if set != 1 {
		return "", errors.New("want exactly one of an interval, a cron expression and a time")
	}
	if j.TimeZone != "" && j.Cron == "" {
		return "", errors.New("a time zone goes with a cron expression only")
	}
	switch {
	case j.Every != 0:
		if j.Every < minEvery || j.Every%time.Second != 0 {
			return "", fmt.Errorf("interval %s: want whole seconds, at least %s", j.Every, minEvery)
		}
		if j.Every > maxSpan {
			return "", fmt.Errorf("interval %s: want %d years at most", j.Every, maxSpan/year)
		}
		return "@every " + j.Every.String(), nil
	case j.Cron != "":
		return j.cronPattern()
	case time.Until(j.At) > maxSpan:
		return "", fmt.Errorf("the time %s: want one within %d years", j.At.UTC().Format(time.RFC3339), maxSpan/year)
	}
	return "@at " + j.At.UTC().Format(time.RFC3339Nano), nil
}

func (j Job) cronPattern() (string, error) {
	times, err := j.dueTimes()
	if err != nil {
		return "", err
	}
	if times.after(time.Now()).IsZero() {
		return "", fmt.Errorf("cron expression %q: it is never due", j.Cron)
	}
	return serverExpression(j.Cron)
}

// next returns the first time after a time at which j is due, or zero. Intervals
// count from since, the time of the write.
func (j Job) next(since, after time.Time) time.Time {
	switch {
	case j.Every > 0:
		since = since.Round(time.Second) // as the server does
		if after.Before(since) {
			return since.Add(j.Every)
		}
		return since.Add((after.Sub(since)/j.Every + 1) * j.Every)
	case j.Cron != "":
		times, err := j.dueTimes()
		if err != nil {
			return time.Time{}
		}
		return times.after(after)
	case j.At.After(after):
		return j.At
	}
	return time.Time{}
}

// parsePattern decodes the result of pattern. It returns no times for an
// interval or time that another client wrote in a different form.
func parsePattern(pattern, zone string) Job {
	if every, ok := strings.CutPrefix(pattern, "@every "); ok {
		d, _ := time.ParseDuration(every)
		return Job{Every: d}
	}
	if at, ok := strings.CutPrefix(pattern, "@at "); ok {
		t, _ := time.Parse(time.RFC3339, at)
		return Job{At: t}
	}
	pattern, _ = strings.CutPrefix(pattern, "0 ") // its second; users write five fields
	return Job{Cron: pattern, TimeZone: zone}
}

package retry

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestDo(t *testing.T) {
	temporary, final := errors.New("temporary"), errors.New("final")
	isFinal := func(err error) bool { return errors.Is(err, final) }
	for name, test := range map[string]struct {
		answers []error
		want    error
	}{
		"success":              {[]error{nil}, nil},
		"success after errors": {[]error{temporary, temporary, nil}, nil},
		"final error":          {[]error{temporary, final, nil}, final},
	} {
		t.Run(name, func(t *testing.T) {
			calls, failures := 0, 0
			err := Do(context.Background(), Pauses(time.Microsecond, time.Microsecond, 0), isFinal, func(error, time.Duration) { failures++ }, func() error {
				calls++
				return test.answers[calls-1]
			})
			if err != test.want || failures != calls-1 {
				t.Errorf("Do = %v after %d calls and %d pauses, want %v", err, calls, failures, test.want)
			}
		})
	}
}

func TestDoEnds(t *testing.T) {
	temporary := errors.New("temporary")
	never := func(error) bool { return false }
	fail := func() error { return temporary }
	if err := Do(context.Background(), Pauses(time.Microsecond, time.Microsecond, time.Millisecond), never, nil, fail); err != temporary {
		t.Errorf("after all pauses: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Do(ctx, Pauses(time.Hour, time.Hour, 0), never, nil, fail); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// What a server asks for is bounded.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight of 2000-01-01
		for value, want := range map[string]time.Duration{
			"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "-3": time.Millisecond, "1e300": time.Hour, "NaN": time.Millisecond,
			"Sat, 01 Jan 2000 00:00:10 GMT": 10 * time.Second, "Thu, 01 Jan 2099 00:00:00 GMT": time.Hour, "Thu, 01 Jan 1970 00:00:00 GMT": time.Millisecond,
			"": 0, "soon": 0,
		} {
			if got, ok := After(http.Header{"Retry-After": {value}}, time.Hour); got != want || ok != (want > 0) {
				t.Errorf("Retry-After %q: %s, %v, want %s", value, got, ok, want)
			}
		}
		for range 50 { // the finer of two that a server names
			if got, _ := After(http.Header{"Retry-After-Ms": {"70"}, "Retry-After": {"1"}}, time.Hour); got != 70*time.Millisecond {
				t.Fatalf("70 ms became %s", got)
			}
		}
	})
}

package retry

import (
	"context"
	"errors"
	"testing"
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

package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// ReadSubjects reads the messages of its subjects in order and then returns, also if
// the last ones are deleted meanwhile. It ends with the error of f or of the context.
func TestReadSubjects(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Timeout: 2 * time.Second})
	subjects := []string{b.Result("s", "*"), b.Completion("s", "*")}
	read := func(ctx context.Context, f func(n int) error) (n int, err error) {
		err = b.ReadSubjects(ctx, bus.Results, subjects, func(_ string, body []byte) error {
			if want := fmt.Sprint(n); string(body) != want {
				t.Errorf("message %s, want %s", body, want)
			}
			n++
			return f(n)
		})
		return n, err
	}
	all := func(int) error { return nil }
	if n, err := read(t.Context(), all); n != 0 || err != nil {
		t.Errorf("nothing: %d messages, %v", n, err)
	}
	const count = 1200 // more than one request of the iterator
	for i := range count {
		subject := b.Result("s", fmt.Sprint("c", i))
		if i%3 == 0 {
			subject = b.Completion("s", fmt.Sprint("c", i))
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := read(t.Context(), all); n != count || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
	failed := errors.New("failed")
	if n, err := read(t.Context(), func(int) error { return failed }); n != 1 || !errors.Is(err, failed) {
		t.Errorf("error of f: %d messages, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if n, err := read(ctx, func(n int) error {
		if n == 100 {
			cancel()
		}
		return nil
	}); n == count || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %d messages, %v", n, err)
	}
	stream, err := b.Stream(t.Context(), bus.Results)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := read(t.Context(), func(n int) error {
		if n == 1 {
			return stream.Purge(t.Context())
		}
		return nil
	}); n == 0 || n == count || err != nil {
		t.Errorf("purged: %d messages, %v", n, err)
	}
}

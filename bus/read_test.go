package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// Read returns the selected messages in order, even with forged headers of the server, and
// ends at its bounds, or with the error of the context.
func TestRead(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	read := func(ctx context.Context, q bus.Query, each func(n int)) (got []bus.Stored, err error) {
		q.Subject = b.Result("s", "*")
		for m, err := range b.Read(ctx, bus.Results, q) {
			if err != nil {
				return got, err
			}
			got = append(got, m)
			each(len(got))
		}
		return got, nil
	}
	goOn := func(int) {}
	if got, err := read(t.Context(), bus.Query{}, goOn); len(got) != 0 || err != nil {
		t.Fatalf("nothing: %d messages, %v", len(got), err)
	}
	const count = 700 // more than two batches
	for i := range count {
		m := bus.Message{Subject: b.Result("s", fmt.Sprint("c", i+1)), Body: fmt.Append(nil, i+1), Key: fmt.Sprint("k", i+1)}
		if i%10 == 1 {
			m.Header = nats.Header{"Nats-Subject": {"spoofed"}, "Nats-Sequence": {"1"}, "Nats-Stream": {""}, "Status": {"404"}}
		}
		if i == 2 {
			m.Subject = b.Result("other", "c") // not asked for
		}
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		query             bus.Query
		want, first, last int
	}{
		{bus.Query{}, count - 1, 1, count},
		{bus.Query{Limit: 1}, 1, 1, 1},
		{bus.Query{Limit: 4}, 4, 1, 5},
		{bus.Query{Limit: 300}, 300, 1, 301},
		{bus.Query{From: 3, Limit: 5}, 5, 4, 8},
		{bus.Query{From: 4, Before: 5}, 1, 4, 4},
		{bus.Query{From: 3, Before: 4}, 0, 0, 0},
		{bus.Query{From: 100, Before: 600}, 500, 100, 599},
		{bus.Query{From: count + 1}, 0, 0, 0},
		{bus.Query{Back: true, Limit: 5}, 5, count, count - 4},
	} {
		got, err := read(t.Context(), c.query, goOn)
		if err != nil || len(got) != c.want || c.want > 0 && (got[0].Sequence != uint64(c.first) || got[len(got)-1].Sequence != uint64(c.last)) {
			t.Errorf("%+v: %d messages, %v", c.query, len(got), err)
		}
		for _, m := range got {
			if string(m.Body) != fmt.Sprint(m.Sequence) || m.Subject != b.Result("s", "c"+string(m.Body)) || m.ID() != "k"+string(m.Body) || m.At.IsZero() {
				t.Fatalf("message %+v", m)
			}
		}
	}
	all, err := read(t.Context(), bus.Query{}, goOn)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), bus.Query{Since: all[500].At}, goOn); err != nil || len(got) == 0 || got[0].At.Before(all[500].At) || got[len(got)-1].Sequence != count {
		t.Errorf("since a time: %d messages, %v", len(got), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if got, err := read(ctx, bus.Query{}, func(n int) {
		if n == 100 {
			cancel()
		}
	}); len(got) == count || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %d messages, %v", len(got), err)
	}
}

package bus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// ScanDirect reads all matching messages, even with forged headers of the server, and
// stops at its limits.
func TestScanDirect(t *testing.T) {
	b := bustest.New(t)
	if all, err := b.ScanDirect(t.Context(), bus.Calls, b.Call("*", "*", "*", "*"), 10, 1<<20, func(bus.Stored) bool { return true }); !all || err != nil {
		t.Fatalf("nothing: all %t, %v", all, err)
	}
	const count = 600 // more than one batch
	for i := range count {
		m := bus.Message{Subject: bustest.NewCall(b, "default", "x"), Body: fmt.Append(nil, i), Key: fmt.Sprint("k", i)}
		if i == 1 {
			m.Header = nats.Header{"Nats-Subject": {"spoofed"}, "Nats-Sequence": {"1"}, "Nats-Stream": {""}, "Status": {"404"}}
		}
		if i == 2 {
			m.Subject = b.Raw("default", "x", "default", "raw") // not asked for
		}
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		count, size, stop, want int
		all                     bool
	}{
		{1000, 1 << 20, count, count - 1, true},
		{100, 1 << 20, count, 100, false},
		{1000, 10, count, 9, false}, // 0 to 9 but 2, one byte each, and then 10
		{1000, 1 << 20, 5, 5, false},
	} {
		var got []bus.Stored
		all, err := b.ScanDirect(t.Context(), bus.Calls, b.Call("*", "*", "*", "*"), c.count, c.size, func(m bus.Stored) bool {
			got = append(got, m)
			return len(got) < c.stop
		})
		if err != nil || all != c.all || len(got) < c.want || len(got) > c.want+2 {
			t.Errorf("%+v: %d messages, all %t, %v", c, len(got), all, err)
		}
		seen := 0
		for _, m := range got {
			if string(m.Body) == "1" {
				seen++
			}
			if !strings.HasPrefix(m.Subject, "stevedore.call.default.x.default.") || string(m.Body) != fmt.Sprint(m.Sequence-1) || m.ID != "k"+string(m.Body) || m.At.IsZero() {
				t.Fatalf("message %+v", m)
			}
		}
		if seen != 1 {
			t.Errorf("%+v: the forged message was read %d times", c, seen)
		}
	}
}

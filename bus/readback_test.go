package bus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// Back selects each message once, newest first, in pages of any size, although most
// messages have other subjects, some are large, and others were deleted.
func TestReadBack(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("thousands of messages from one goroutine take long under the race detector")
	}
	b := bustest.New(t)
	var want []string
	put := func(session, body string) {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Session(session), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3000 {
		body := fmt.Sprint(i, " ", strings.Repeat("x", i%7*200))
		switch {
		case i%50 == 0 || i < 700 || i > 2950: // dense, then sparse, then dense
			put("wanted", body)
			want = append(want, body)
		default:
			put("other", body)
		}
	}
	stream, err := b.Stream(t.Context(), bus.Sessions)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 1); err != nil { // the first wanted one
		t.Fatal(err)
	}
	want = want[1:]
	for _, page := range []int{1, 7, 1000} {
		var got []string
		for before := uint64(0); ; {
			n := 0
			for m, err := range b.Read(t.Context(), bus.Sessions, bus.Back(b.Session("wanted"), before)) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(m.Body))
				before = m.Sequence
				if n++; n >= page {
					break
				}
			}
			if n == 0 {
				break
			}
		}
		if len(got) != len(want) {
			t.Fatalf("pages of %d: got %d messages, want %d", page, len(got), len(want))
		}
		for i, body := range got {
			if body != want[len(want)-1-i] {
				t.Fatalf("pages of %d: message %d is %.10q, want %.10q", page, i, body, want[len(want)-1-i])
			}
		}
	}
	for m, err := range b.Read(t.Context(), bus.Dead, bus.Back(b.Dead("*", "*"), 0)) {
		t.Errorf("empty stream: %+v, %v", m, err)
	}
}

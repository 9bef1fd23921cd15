package session_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/session"
)

// The pages have each session once, the one that was used last first.
func TestListBack(t *testing.T) {
	t.Parallel()
	log := session.New(bustest.New(t))
	for n := range 3 {
		for i := range 7 {
			id := fmt.Sprint("s", i)
			_, last, err := log.Read(t.Context(), id)
			if err == nil && (n < 2 || i%2 == 0) {
				_, err = log.Append(t.Context(), id, last, []byte("{}"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{"s6 3", "s4 3", "s2 3", "s0 3", "s5 2", "s3 2", "s1 2"}
	for _, limit := range []int{1, 2, 3, 100} {
		var got []string
		for before, pages := uint64(0), 0; ; pages++ {
			sizes, next, err := log.ListBack(t.Context(), before, limit)
			if err != nil || len(sizes) > limit || pages > 20 {
				t.Fatal(sizes, err)
			}
			for _, s := range sizes {
				got = append(got, fmt.Sprint(s.Session, " ", s.Entries))
			}
			if before = next; next == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
}

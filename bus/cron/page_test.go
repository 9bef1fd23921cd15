package cron_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// The pages of a list have each job of the session once.
func TestListPages(t *testing.T) {
	t.Parallel()
	jobs := cron.New(bustest.New(t))
	for i := range 5 {
		for _, session := range []string{"alice", "bob"} {
			if _, err := do(t, jobs, cron.Caller{Session: session}, "", fmt.Sprintf(`{"action":"add","name":"%s%d","every":"1h","tool":"x"}`, session, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for after, pages := "", 0; pages < 3; pages++ {
		a, err := do(t, jobs, cron.Caller{Session: "alice"}, "", fmt.Sprintf(`{"action":"list","limit":2,"after":%q}`, after))
		if err != nil || (a.Next == "") != (pages == 2) || a.Next != "" && !strings.Contains(a.Text(), "continue after "+a.Next) {
			t.Fatalf("page %d: %q, next %q, %v", pages, a.Text(), a.Next, err)
		}
		for _, e := range a.Jobs {
			got = append(got, e.Name)
		}
		after = a.Next
	}
	if strings.Join(got, " ") != "alice0 alice1 alice2 alice3 alice4" {
		t.Errorf("got %v", got)
	}
	if _, err := do(t, jobs, cron.Caller{Session: "alice"}, "", `{"action":"list","limit":-1}`); err == nil {
		t.Error("a negative limit is accepted")
	}
}

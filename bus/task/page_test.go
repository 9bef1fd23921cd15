package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// The pages of a listing have each task once: parked calls, waiting calls and async calls,
// the newest first. Other sessions and calls that have ended are not in them.
func TestListPage(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	put := func(subject, body string) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for i := range 7 {
		id := fmt.Sprint("async", i)
		put(b.Result("s", id), `{"id":"`+id+`","session":"s","tool":"x","outcome":"async","started_at":"2026-01-01T00:00:00Z"}`)
		if i%2 == 0 {
			put(b.Completion("s", id), `{"id":"`+id+`","session":"s","tool":"x","outcome":"completed","started_at":"2026-01-01T00:00:00Z"}`)
		}
		put(b.Result("s", "sync"+id), `{"id":"sync","session":"s","tool":"x","outcome":"completed"}`)
		put(b.Result("other", id), `{"id":"o","session":"other","tool":"x","outcome":"async"}`)
		want = append(want, id)
	}
	for i := range 5 {
		id := fmt.Sprint("call", i)
		if i == 4 { // a result that waits to be offloaded
			put(b.Raw("unserved", "x", "s", id), "{}")
		} else {
			put(b.Call("unserved", "x", "s", id), "{}")
		}
		put(b.Call("unserved", "x", "other", id), "{}")
		want = append(want, id)
	}
	put(b.Call("unserved", "x", "s", "ended"), "{}") // its worker died before the acknowledgement
	put(b.Result("s", "ended"), `{"id":"ended","session":"s","tool":"x","outcome":"completed"}`)
	for i, id := range []string{"async3", "parked1", "parked2", "parked3"} { // also one that is async
		p := task.Parked{Since: time.Unix(int64(i), 0), Queue: "unserved", State: task.InputRequired, Call: tools.Call{ID: id, Session: "s", Tool: "x"}}
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	put(b.Result("s", "call2"), `{"id":"another","session":"s","tool":"x","outcome":"completed"}`) // no worker wrote it
	if _, err := task.ChangeRecord(t.Context(), b, tools.CallKey{Session: "s", ID: "parked2"}, func(r *task.Record) error {
		r.Answer = &task.Answer{Approve: true}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(want)
	want = append([]string{"parked3", "parked2", "parked1"}, want...)

	for _, limit := range []int{1, 3, 4, 500} {
		var got []string
		states := map[string]task.State{}
		for p := (task.Page{Limit: limit}); ; {
			l, err := task.ListPage(t.Context(), b, "s", p)
			if err != nil || len(l.Tasks) > limit || len(got) > 50 {
				t.Fatalf("limit %d after %q: %d tasks, %v", limit, p.After, len(l.Tasks), err)
			}
			for _, task := range l.Tasks {
				got = append(got, task.ID)
				states[task.ID] = task.State
			}
			if p.After = l.Next; l.Next == "" {
				break
			}
			if !strings.Contains(l.Text(), l.Next) {
				t.Errorf("the text does not say how to continue:\n%s", l.Text())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d:\n got %v\nwant %v", limit, got, want)
		}
		for id, want := range map[string]task.State{"async2": task.Completed, "async1": task.Queued, "call1": task.Queued,
			"async3": task.InputRequired, "parked2": task.Waiting} {
			if states[id] != want {
				t.Errorf("%s is %s, want %s", id, states[id], want)
			}
		}
	}
	for _, p := range []task.Page{{Limit: -1}, {Limit: 501}, {After: "x"}, {After: "r"}, {After: "q3"}, {After: "r-1"}, {After: "r99999999999999999999"}} {
		if _, err := task.ListPage(t.Context(), b, "s", p); tools.CodeOf(err) != tools.CodeInvalidArguments {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

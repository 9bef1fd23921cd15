package dead_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// EachDeadLetter handles many letters at once, but those of a chat in order. It reports
// all in order, also after errors.
func TestEachDeadLetter(t *testing.T) {
	testEach(t, bus.DeletesAtOnce, 20)
	testEach(t, dead.PublishesAtOnce, 100)
}

// testEach checks that want letters are handled at once.
func testEach(t *testing.T, atOnce, want int) {
	t.Helper()
	const count = 200
	var letters []dead.Stored
	for i := range count {
		l := dead.Stored{Number: uint64(i), Letter: dead.Letter{Kind: bus.DeadCall, Name: "shell"}}
		if i%2 == 0 {
			l.Kind, l.Name, l.Subject = bus.DeadNotification, "chat", fmt.Sprint("stevedore.notify.chat.", i%10)
		}
		letters = append(letters, l)
	}
	var (
		mu       sync.Mutex
		running  = 0
		last     = map[string]uint64{}
		busy     = map[string]bool{}
		next     uint64
		parallel = make(chan struct{})
	)
	dead.Each(letters, atOnce, func(l dead.Stored) error {
		mu.Lock()
		if running++; running == want {
			close(parallel)
		}
		chat := ""
		if l.Kind == bus.DeadNotification {
			chat = fmt.Sprint(l.Number % 10)
		}
		if chat != "" {
			if before, ok := last[chat]; ok && before > l.Number || busy[chat] {
				t.Errorf("letter %d of %s after letter %d; busy: %t", l.Number, chat, before, busy[chat])
			}
			last[chat], busy[chat] = l.Number, true
		}
		mu.Unlock()
		<-parallel // needs want at once
		mu.Lock()
		defer mu.Unlock()
		busy[chat] = false
		if l.Number%3 == 0 {
			return errors.New("no")
		}
		return nil
	}, func(l dead.Stored, err error) {
		if l.Number != next || (err != nil) != (next%3 == 0) {
			t.Errorf("letter %d: %v, want letter %d", l.Number, err, next)
		}
		next++
	})
	if next != count {
		t.Errorf("%d letters are done", next)
	}
}

// A list needs several requests. It has what is not a letter, too, because the status counts it: it can be read and removed, but not retried.
func TestDeadLettersAreListedInBatches(t *testing.T) {
	b := bustest.New(t)
	const count = 700
	for i := range count {
		body := fmt.Sprintf(`{"subject":"stevedore.call.default.x","id":"%d"}`, i)
		if i%7 == 0 {
			body = "not a letter"
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Dead(bus.DeadCall, "x"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Dead(bus.DeadBody, "x"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"", bus.DeadCall} {
		i := 0
		for _, letter := range list(t, b, kind, 0) {
			id := fmt.Sprint(i)
			if i%7 == 0 {
				id = ""
				if body, err := letter.Message(t.Context(), b); err != nil || string(body) != "not a letter" || dead.CheckRetriable(b.Subjects, letter) == nil {
					t.Fatalf("message %d is %+v with %q, %v", i, letter, body, err)
				}
			}
			if letter.ID != id || letter.Number != uint64(2*i+1) || letter.Kind != bus.DeadCall {
				t.Fatalf("letter %d is %+v", i, letter)
			}
			i++
		}
		if n, err := dead.Count(t.Context(), b); i != count || n != count || err != nil {
			t.Errorf("%d of %d, and %d are counted, %v", i, count, n, err)
		}
	}
	for _, letter := range list(t, b, bus.DeadTick, 0) {
		t.Errorf("%+v is not a tick", letter)
	}
}

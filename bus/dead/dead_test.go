package dead_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// A call whose arguments are in an artifact keeps them when its letter is retried, and also its priority, but no
// header by which the server or a worker would treat it as another call.
func TestRetriedLetterKeepsItsHeader(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		letters := bustest.Subscribe(t, b, "stevedore.dead.call.>")
		headers := make(chan [4]string, 2)
		run(t, b, consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
			headers <- [4]string{d.Header(bus.ArgsHeader), d.Header(bus.PriorityHeader), d.Header("traceparent"), d.Header(bus.FreshHeader)}
			if len(headers) == 1 {
				return consume.Reject("code", errors.New("a reason"))
			}
			return nil
		})
		header := nats.Header{bus.ArgsHeader: {"args-c"}, bus.PriorityHeader: {"high"}, bus.FreshHeader: {"1"}, "traceparent": {strings.Repeat("0", 50_000)}}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte(`{}`), Header: header}); err != nil {
			t.Fatal(err)
		}
		letter, _ := bustest.Next[dead.Letter](t, letters)
		waitForEmpty(t, b)
		if err := retry(t.Context(), b, dead.Stored{Letter: letter}); err != nil {
			t.Fatal(err)
		}
		waitForEmpty(t, b)
		if <-headers; (<-headers) != [4]string{"args-c", "high"} {
			t.Error("a header is missing, or too much")
		}
	})
}

// A call that fills a message keeps its priority, too: there is room for its header without the id.
func TestRetriedLargeLetterKeepsItsPriority(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		letters := bustest.Subscribe(t, b, "stevedore.dead.call.>")
		priorities := make(chan string, 2)
		run(t, b, consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
			priorities <- d.Header(bus.PriorityHeader)
			if len(priorities) == 1 {
				return consume.Reject("code", errors.New("a reason"))
			}
			return nil
		})
		publish := func(size int) error {
			body := fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", size))
			_, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: body, Header: nats.Header{bus.PriorityHeader: {"high"}}})
			return err
		}
		size := int(b.Conn().MaxPayload()) // the largest that fits
		for ; publish(size) != nil; size-- {
			if size < int(b.Conn().MaxPayload())-1000 {
				t.Fatal("nothing fits")
			}
		}
		letter, _ := bustest.Next[dead.Letter](t, letters)
		waitForEmpty(t, b)
		if err := retry(t.Context(), b, dead.Stored{Letter: letter}); err != nil {
			t.Fatal(err)
		}
		waitForEmpty(t, b)
		if first, second := <-priorities, <-priorities; first != "high" || second != "high" {
			t.Errorf("the priority is %q, and after the retry %q", first, second)
		}
	})
}

// Any message becomes a dead letter with the reason, is returned unchanged, and can be
// retried with its id.
func TestDeadLetters(t *testing.T) {
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for name, body := range map[string][]byte{
		"JSON":               []byte(`{"id":"a","args":{"text":"<ü>"}}`),
		"JSON null":          []byte(`null`),
		"empty":              {},
		"binary":             {0, 1, 0xff, '\n'},
		"large JSON":         []byte(`{"id":"` + strings.Repeat("x", 1<<20-9) + `"}`),
		"large binary":       random[:700<<10],
		"largest binary":     random,
		"large, escaped":     []byte(`{"id":"` + strings.Repeat(`<`, 1<<20-9) + `"}`),
		"invalid but nearly": []byte(`{"id":"a",}`),
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				letters := bustest.Subscribe(t, b, "stevedore.dead.call.>")
				ids := make(chan string, 8)
				run(t, b, consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
					ids <- d.ID()
					if !bytes.Equal(d.Body, body) {
						t.Errorf("body of %d bytes, want %d", len(d.Body), len(body))
					}
					if d.Sequence == 1 {
						return consume.Reject("code", errors.New("reason "+strings.Repeat("r", 100_000)))
					}
					return nil
				})
				subject := bustest.NewCall(b, "default", "echo")
				if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: body}); err != nil {
					t.Fatal(err)
				}
				letter, _ := bustest.Next[dead.Letter](t, letters)
				if letter.Kind != bus.DeadCall || letter.Name != "echo" || letter.Code != "code" ||
					!strings.HasPrefix(letter.Reason, "reason r") || letter.Subject != subject || !strings.HasPrefix(letter.ID, "seq-1-") {
					t.Errorf("dead letter %.300v", letter)
				}
				waitForEmpty(t, b)
				if n, err := dead.Count(t.Context(), b); n != 1 || err != nil { // the body may be a message of its own
					t.Errorf("%d dead letters, %v", n, err)
				}
				got, err := letter.Message(t.Context(), b)
				if err != nil || !bytes.Equal(got, body) {
					t.Fatalf("message of %d bytes, want %d; %v", len(got), len(body), err)
				}
				if len(body) > 1<<20-1000 { // the headers that make retries one do not fit
					if err := retry(t.Context(), b, dead.Stored{Letter: letter}); err != nil {
						t.Fatal(err)
					}
					waitForEmpty(t, b)
					if len(ids) < 2 { // more, if an acknowledgement was late
						t.Error("the retry was not handled")
					}
					return
				}
				for range 2 { // the stream drops the second retry, if it is not late
					if err := retry(t.Context(), b, dead.Stored{Letter: letter}); err != nil {
						t.Fatal(err)
					}
				}
				waitForEmpty(t, b)
				first := <-ids
				if len(ids) == 0 {
					t.Error("the retry was not handled")
				}
				for len(ids) > 0 {
					if id := <-ids; id != first {
						t.Errorf("id %s, then %s", first, id)
					}
				}
			})
		})
	}
}

// consume consumes the calls of the default queue.
func run(t *testing.T, b *bus.Bus, cfg consume.Config, handler consume.Handler) {
	t.Helper()
	bustest.Run(t, func(ctx context.Context) error {
		return dead.Consume(ctx, b, b.WorkerConsumer("default"), cfg, nil, handler)
	})
}

func waitForEmpty(t *testing.T, b *bus.Bus) {
	t.Helper()
	bustest.WaitUntil(t, "an empty stream", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
}

// retry republishes a dead letter and removes it, as rpc.ChangeLetters does with one that has no result.
func retry(ctx context.Context, b *bus.Bus, letter dead.Stored) error {
	if err := dead.Republish(ctx, b, letter); err != nil {
		return err
	}
	return dead.Remove(ctx, b, letter)
}

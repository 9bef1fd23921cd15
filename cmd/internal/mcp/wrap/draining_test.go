package wrap

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// A client that closes its side gets the answers that are open, but a subscription has none.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe()
		go func() {
			for {
				m, err := far.Receive()
				if err != nil {
					return
				}
				if m.Method == "tools/call" {
					time.Sleep(30 * time.Second)
					_ = far.Send(wire.Response(m.ID, "done"))
				}
			}
		}()
		var out strings.Builder
		in := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`
		began := time.Now()
		err := Run(t.Context(), NewStream(strings.NewReader(in), &out, nil), Config{Server: func(context.Context) (Link, error) { return near, nil }})
		if err != nil || !strings.Contains(out.String(), "done") || time.Since(began) > 35*time.Second {
			t.Errorf("after %s: %q, %v", time.Since(began), out.String(), err)
		}
	})
}

// A subscription is open for longer than a call may take.
func TestSubscriptionStaysOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, inner := Pipe()
		near, far := Pipe()
		go func() {
			for {
				m, err := far.Receive()
				if err != nil {
					return
				}
				if m.Method == "ping" {
					_ = far.Send(wire.Response(m.ID, fields{}))
				}
			}
		}()
		ended := make(chan error, 1)
		go func() {
			ended <- Run(t.Context(), inner, Config{Server: func(context.Context) (Link, error) { return near, nil }, CallTimeout: time.Minute})
		}()
		_ = client.Send(wire.Request("1", "subscriptions/listen", nil)) // Receive has the error
		time.Sleep(time.Hour)
		_ = client.Send(wire.Request("2", "ping", nil))
		if m, err := client.Receive(); err != nil || m.ID != "2" {
			t.Errorf("%s, %v", m.Text(), err)
		}
		client.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The end of a link waits for the answers to the requests before it.
func TestDraining(t *testing.T) {
	t.Parallel()
	request := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call"}` + "\n" }
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
	answer := func(id string) func(Link) {
		return func(l Link) {
			if err := l.Send(wire.Response(id, "done")); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		in    string
		ends  func(Link) // what ends the wait; nil if there is none
		limit bool
	}{
		"nothing open":    {in: `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"},
		"answered":        {in: request("1"), ends: answer("1")},
		"another form":    {in: request("1.0") + request(`"\u0061"`), ends: func(l Link) { answer("1")(l); answer(`"a"`)(l) }},
		"cancelled":       {in: request("1") + cancel},
		"closed":          {in: request("1"), ends: Link.Close},
		"never answered":  {in: request("1"), limit: true},
		"another answer":  {in: request("1"), ends: answer("2"), limit: true},
		"a subscription":  {in: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}` + "\n"},
		"not JSON":        {in: "x\n" + request("1"), ends: answer("1")},
		"id without form": {in: request("1") + `{"jsonrpc":"2.0","id":{},"method":"x"}` + "\n", ends: answer("1")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sides := 0
				link := Draining(NewStream(strings.NewReader(c.in), io.Discard, nil), time.Minute, func() { sides++ })
				ended := make(chan error, 1)
				go func() {
					for {
						if _, err := link.Receive(); err != nil && !wire.IsOfOneMessage(err) {
							ended <- err
							return
						}
					}
				}()
				began := time.Now()
				synctest.Wait()
				if waits := len(ended) == 0; waits != (c.ends != nil || c.limit) {
					t.Fatalf("waits: %v", waits)
				}
				if c.ends != nil {
					c.ends(link)
				}
				if err := <-ended; !errors.Is(err, io.EOF) || sides != 1 {
					t.Errorf("got %v; the client's side ended %d times", err, sides)
				}
				if limit := time.Since(began) == time.Minute; limit != c.limit {
					t.Errorf("after %s", time.Since(began))
				}
			})
		})
	}
}

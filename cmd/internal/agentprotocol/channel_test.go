package agentprotocol

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

func newChannel(t *testing.T) *Channel {
	t.Helper()
	c, err := New(bustest.New(t), Config{Name: "team", Agent: "stevedore", Owner: "anna", Sessions: []string{"main"}, Version: "0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A notification goes only to inboxes, whatever call it names, and becomes a dead letter if no
// client waits.
func TestForgedReplySubject(t *testing.T) {
	t.Parallel()
	c := newChannel(t)
	calls, err := c.bus.Conn().SubscribeSync(c.bus.Call("*", "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []channel.Notification{
		{ChatID: "main", Call: "message-" + c.bus.Call("default", "shell", "s", "1"), Text: "x"},
		{ChatID: "main", Call: "c1", Text: "nobody waits"},
		{ChatID: "other", Call: "message-_INBOX.a", Text: "no such session"},
	} {
		if _, rejected := consume.Rejected(c.Send(t.Context(), n)); !rejected {
			t.Errorf("%+v is not rejected", n)
		}
	}
	if err := c.bus.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := calls.Pending(); n > 0 || err != nil {
		t.Errorf("%d calls were published: %v", n, err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Agent: "a", Owner: "o"},
		{Agent: "a.b", Owner: "o", Sessions: []string{"s"}},
		{Agent: "a", Owner: "", Sessions: []string{"s"}},
		{Agent: "a", Owner: "o", Sessions: []string{"s", "*"}},
	} {
		if _, err := New(nil, cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// A long text arrives whole, with its note on a line of its own, and no chunk cuts a character.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	c := newChannel(t)
	client, err := c.bus.Conn().SubscribeSync("_INBOX.client")
	if err != nil {
		t.Fatal(err)
	}
	text := "x" + strings.Repeat("ä", maxChunk)
	if err := c.Send(t.Context(), channel.Notification{ChatID: "main", Call: "message-_INBOX.client", Text: text, Note: "cut\nhere"}); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for {
		m, err := client.NextMsg(bustest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) == 0 {
			break
		}
		part, ok := strings.CutPrefix(string(m.Data), `{"type":"response","data":"`)
		if got.WriteString(strings.TrimSuffix(part, `"}`)); !ok || strings.Contains(part, `\ufffd`) {
			t.Fatalf("the chunk %.80s", m.Data)
		}
	}
	if want := text + `\n(cut\\nhere)`; got.String() != want {
		t.Errorf("%d bytes of %d, with the end %q", len(got.String()), len(want), tools.Excerpt(got.String()[len(got.String())-30:], 60))
	}
}

// slowInbox accepts a message when the test reads it.
type slowInbox struct {
	channel.Inbox
	texts   chan string
	running atomic.Int32
}

func (in *slowInbox) Accept(_ context.Context, m channel.Incoming) (channel.Accepted, error) {
	if in.running.Add(1) > 1 {
		m.Text += " beside another one"
	}
	in.texts <- m.Text
	in.running.Add(-1)
	return channel.Accepted{}, nil
}

// A client that sends prompts in a row, without waiting for their acknowledgements, gets them
// stored in this order.
func TestPromptsInARow(t *testing.T) {
	t.Parallel()
	c := newChannel(t)
	in := &slowInbox{texts: make(chan string)}
	stop := bustest.Run(t, func(ctx context.Context) error { return c.Receive(ctx, in, zerolog.Nop()) })
	defer stop()
	bustest.WaitUntil(t, "the agent", func() bool {
		_, err := c.bus.Conn().Request(c.subject("status", "main"), nil, time.Second)
		return err == nil
	})
	want := []string{"1 delete it", "2 no, keep it", "3 wait", "4 rename it", "5 thanks"}
	for _, text := range want {
		if err := c.bus.Conn().PublishRequest(c.subject("prompt", "main"), c.bus.Conn().NewInbox(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for range want {
		got = append(got, <-in.texts)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

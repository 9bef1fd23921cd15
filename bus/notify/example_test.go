package notify_test

import (
	"context"
	"fmt"
	"os"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// pager is a channel of one's own. Send gets the notifications of a chat one after the other,
// in their order, and again if it returned an error.
type pager struct{ shown chan string }

func (p pager) Send(_ context.Context, n channel.Notification) error {
	p.shown <- fmt.Sprintf("to %s: %s", n.ChatID, n.Text)
	return nil
}

// This program delivers notifications to a channel of its own, with the bus in the same process.
// Any program may publish them, in any language, while the notifier is down, too.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "stevedore-example-")
	check(err)
	defer os.RemoveAll(dir)
	server, err := embedded.Start(embedded.Config{Dir: dir})
	check(err)
	defer server.Close()
	b, err := bus.Connect(ctx, server.ClientConfig(bus.Config{}))
	check(err)
	defer b.Close()
	_, err = admin.Provision(ctx, b, admin.Nothing)
	check(err)

	for _, text := range []string{"The backup begins.", "The backup has ended."} {
		_, err = b.Publish(ctx, bus.Message{Subject: b.Notify("pager", "anna"), Body: fmt.Appendf(nil, `{"chat_id":"anna","text":%q}`, text)})
		check(err)
	}
	p := pager{shown: make(chan string)}
	n, err := notify.New(b, notify.Config{Channels: map[string]channel.Channel{"pager": p}, Default: "pager"})
	check(err)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	fmt.Println(<-p.shown)
	fmt.Println(<-p.shown)
	stop()
	check(<-ended)
	// Output:
	// to anna: The backup begins.
	// to anna: The backup has ended.
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

package notify

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// slowChannel takes as long for a notification as a platform.
type slowChannel struct{ accepted atomic.Int64 }

func (s *slowChannel) Send(context.Context, channel.Notification) error {
	time.Sleep(3 * time.Millisecond)
	s.accepted.Add(1)
	return nil
}

// BenchmarkDelivery delivers a backlog of notifications, each of which takes 3 ms.
func BenchmarkDelivery(b *testing.B) {
	for _, notifiers := range []int{1, 2} {
		for _, chats := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("notifiers=%d/chats=%d", notifiers, chats), func(b *testing.B) {
				s := bustest.Server(b)
				conn := bustest.Connect(b, s, bus.Config{})
				receiver := new(slowChannel)
				for i := range b.N {
					_, err := conn.Publish(b.Context(), bus.Message{Subject: conn.Notify("chat", fmt.Sprint("c", i%chats)), Body: fmt.Appendf(nil, `{"chat_id":"c%d","text":%q}`, i%chats, strings.Repeat("x", 200))})
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for range notifiers {
					n, err := New(bustest.Connect(b, s, bus.Config{}), Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat", Log: zerolog.Nop()})
					if err != nil {
						b.Fatal(err)
					}
					bustest.Run(b, n.Run)
				}
				bustest.WaitUntil(b, "all", func() bool { return receiver.accepted.Load() >= int64(b.N) })
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "notifications/s")
			})
		}
	}
}

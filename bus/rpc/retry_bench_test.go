package rpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// BenchmarkDeadLetters lists the dead letters of b.N calls and retries all of them.
func BenchmarkDeadLetters(b *testing.B) {
	for _, sync := range []bool{true, false} {
		b.Run(fmt.Sprintf("sync=%t", sync), func(b *testing.B) {
			conn := bustest.Connect(b, bustest.Start(b, embedded.Config{NoSync: !sync}), bus.Config{})
			put := func(m bus.Message) {
				if _, err := conn.Publish(b.Context(), m); err != nil {
					b.Error(err)
				}
			}
			b.StopTimer()
			for i := range b.N {
				call := fmt.Sprintf("c%d", i)
				put(bus.Message{Subject: conn.Result("s", call), Body: fmt.Appendf(nil, `{"id":%q,"session":"s","outcome":"failed","is_error":true,"error":{"code":"given_up","message":"x"}}`, call)})
				body, err := bus.Encode(dead.Letter{
					Kind: bus.DeadCall, Name: "shell", Code: consume.CodePoison, Reason: "delivered 6 times", ID: call, Sequence: uint64(i + 1),
					Subject: conn.Call("default", "shell", "s", call), Attempts: 6, At: time.Now(), Body: fmt.Appendf(nil, `{"id":%q,"session":"s","args":{"command":"true"}}`, call),
				})
				if err != nil {
					b.Fatal(err)
				}
				put(bus.Message{Subject: conn.Dead(bus.DeadCall, "shell"), Body: body})
			}
			b.StartTimer()
			page, err := dead.ListPage(b.Context(), conn, dead.Query{})
			if err != nil {
				b.Fatal(err)
			}
			letters := page.Letters
			listed := b.Elapsed()
			check := func(_ dead.Stored, err error) {
				if err != nil {
					b.Error(err)
				}
			}
			rpc.ChangeLetters(b.Context(), conn, letters, true, check)
			b.ReportMetric(float64(b.N)/listed.Seconds(), "listed/s")
			b.ReportMetric(float64(b.N)/(b.Elapsed()-listed).Seconds(), "retried/s")
			if got := bustest.Waiting(b, conn); got != b.N || len(letters) != b.N {
				b.Fatalf("%d letters, %d calls", len(letters), got)
			}
		})
	}
}

package bus_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// What the server refuses is known for a minute, unless a caller expects it or a client chose the subject. A refused
// subscription is known until the client repeats it on another connection.
func TestDenied(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		users := func(allow ...string) *server.Options {
			return &server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: dir, Users: []*server.User{{Username: "u", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.INFO"}}, Subscribe: &server.SubjectPermission{Allow: append(allow, "_INBOX.>")},
			}}}}
		}
		srv, err := server.NewServer(users())
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		b, err := bus.Connect(t.Context(), bus.Config{InProcess: srv, User: "u", Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		expect := func(what string, want ...string) {
			t.Helper()
			bustest.WaitUntil(t, what, func() bool { return slices.Equal(b.Denied(), want) })
		}
		expect("nothing")
		if _, err := b.Entry(t.Context(), "call.s.c"); err == nil { // a worker cannot do without
			t.Error("no error")
		}
		if _, err := b.PutEntry(t.Context(), "call.s.c", []byte("{}"), 0, 0); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "$KV.stevedore_tasks.call.s.c") {
			t.Errorf("PutEntry: %v", err)
		}
		for _, subject := range []string{"reply.of.client", "stevedore.result.s.c1", "stevedore.result.s.c2", "$JS.API.CONSUMER.MSG.NEXT.S.c", "$JS.ACK.S.c.1"} {
			if err := b.Conn().Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Conn().SubscribeSync("stevedore.cancel.*.*"); err != nil {
			t.Fatal(err)
		}
		const cancel = "subscribe to stevedore.cancel.>"
		expect("what is refused", "publish to $JS.ACK.>", "publish to $JS.API.CONSUMER.MSG.>", "publish to $JS.API.STREAM.MSG.>", "publish to $KV.stevedore_tasks.>", "publish to stevedore.result.>", cancel)
		time.Sleep(time.Minute + time.Second)
		expect("what lasts", cancel)
		if err := b.Conn().ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		expect("it is refused again", cancel)
		if err := srv.ReloadOptions(users("stevedore.cancel.>")); err != nil {
			t.Fatal(err)
		}
		if err := b.Conn().ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		expect("nothing is refused")
	})
}

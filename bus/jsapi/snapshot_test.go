package jsapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// In a cluster, the answer to a restoration can arrive before the subject is known to the client's server.
func TestLoadStreamBeforeItsSubjectIsKnown(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Dial(t, bustest.Server(t), bus.Config{Log: bustest.Log(t)})
		js, err := jetstream.NewWithAPIPrefix(b.Conn(), "leader.API")
		if err != nil {
			t.Fatal(err)
		}
		parts := make(chan string, 9)
		subscribe := func(subject string, f nats.MsgHandler) {
			if _, err := b.Conn().Subscribe(subject, f); err != nil {
				t.Error(err)
			}
		}
		subscribe("leader.API.STREAM.RESTORE.S", func(m *nats.Msg) {
			_ = m.Respond([]byte(`{"deliver_subject":"parts"}`))
			time.AfterFunc(time.Second, func() {
				subscribe("parts", func(m *nats.Msg) { parts <- string(m.Data); _ = m.Respond(nil) })
			})
		})
		s := jsapi.Snapshot{Config: jetstream.StreamConfig{Name: "S"}}
		if err := jsapi.New(js).LoadStream(t.Context(), s, strings.NewReader("copy")); err != nil {
			t.Error(err)
		}
		if len(parts) != 2 || <-parts != "copy" || <-parts != "" {
			t.Error("the server did not get the copy once")
		}
	})
}

package bustest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Lag lets a replica that has none of the messages of a stream answer half of its direct gets: a mirror, which has lost them.
// subject is that of a message of the stream. Later messages reach the mirror.
func Lag(t testing.TB, js jetstream.JetStream, stream, subject string) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "lag_" + stream, MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: stream}})
	if err != nil {
		t.Fatal(err)
	}
	WaitUntil(t, "the mirror to have the messages", func() bool {
		info, err := mirror.Info(t.Context())
		return err == nil && info.State.Msgs == s.CachedInfo().State.Msgs
	})
	if err := mirror.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	WaitUntil(t, "the mirror to answer for the stream", func() bool {
		for range 50 {
			m, err := js.Conn().Request("$JS.API.DIRECT.GET."+stream, []byte(`{"last_by_subj":"`+subject+`"}`), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if m.Header.Get("Status") == "404" {
				return true
			}
		}
		return false
	})
}

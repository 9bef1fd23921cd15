package embedded_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// A server that does not restart after its disk was full is tried again, with a pause.
func TestRestartFails(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		var failed []time.Time
		var s *embedded.Server
		log := writerFunc(func(line []byte) (int, error) {
			if strings.Contains(string(line), "does not restart") {
				if failed = append(failed, time.Now()); len(failed) == 2 {
					s.Mend()
				}
			}
			return len(line), nil
		})
		s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), NoSync: true, Log: zerolog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		t.Cleanup(synctest.Wait) // as bustest.Start
		b := bustest.Dial(t, s, bus.Config{})
		s.Break()
		bustest.WaitUntil(t, "the server to restart", func() bool { return b.Conn().Stats().Reconnects > 0 })
		if len(failed) != 2 || failed[1].Sub(failed[0]) < 2*time.Second {
			t.Errorf("the restarts failed at %v", failed)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

package embedded

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// A server that does not restart after its disk was full is tried again, with a pause.
func TestRestartFails(t *testing.T) {
	t.Parallel()
	var failed []time.Time
	var s *Server
	log := writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "does not restart") {
			if failed = append(failed, time.Now()); len(failed) == 2 {
				s.cfg.Cert, s.cfg.Key = "", ""
			}
		}
		return len(line), nil
	})
	s, err := Start(Config{Dir: t.TempDir(), NoSync: true, Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reconnected := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo(user, s.password), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectHandler(func(*nats.Conn) { close(reconnected) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s.cfg.Cert, s.cfg.Key = "missing", "missing"
	s.ns.Errorf("write: no space left on device")
	select {
	case <-reconnected:
	case <-time.After(time.Minute):
		t.Fatal("the server does not restart")
	}
	if len(failed) != 2 || failed[1].Sub(failed[0]) < diskInterval {
		t.Errorf("the restarts failed at %v", failed)
	}
}

// A client of a busy machine has more than the 2 s that a server gives by default.
func TestTimeToLogIn(t *testing.T) {
	t.Parallel()
	s, err := Start(Config{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v, err := s.ns.Varz(nil); err != nil || v.AuthTimeout != 10 {
		t.Errorf("%+v, %v", v, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }

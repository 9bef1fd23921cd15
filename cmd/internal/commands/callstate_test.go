package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// The state of a call whose wait has ended says that workers do not answer, and not that there are none.
func TestStateOfACallWhileWorkersStandStill(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var o callOptions
		o.Queue, o.call.ID, o.call.Session, o.call.Tool = "q", "c", "s", "x"
		if _, err := rpc.Enqueue(t.Context(), b, o.Queue, o.call); err != nil {
			t.Fatal(err)
		}
		if got := callState(t.Context(), b, o); got != `state: queued (no worker is consuming queue "q")` {
			t.Errorf("without workers: %s", got)
		}
		bustest.Subscribe(t, b, b.RPC("offer"))
		if got := callState(t.Context(), b, o); !strings.HasPrefix(got, "state: queued (no worker answered in time") {
			t.Errorf("with a silent worker: %s", got)
		}
	})
}

// Servers that do not answer are not called workers.
func TestSilentServers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		bustest.Subscribe(t, b, "$SYS.REQ.SERVER.PING.ACCOUNTZ")
		if all, err := askServers(t.Context(), b.Conn(), time.Second); len(all) > 0 || err == nil || err.Error() != "no server tells its accounts" {
			t.Errorf("%v, %v", all, err)
		}
	})
}

package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

// tasks watch looks at the call again when its end is stored, and not when that is published: the stream may not have it yet,
// and nothing follows it.
func TestWatchWaitsForWhatIsStored(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		bustest.Run(t, rpc.NewService(b, nil, rpc.ServiceConfig{}).Run)
		publish := func(subject string, outcome tools.Outcome, refused bool) {
			body, err := bus.Encode(tools.ResultEvent{ID: "c1", Session: "s1", Tool: "slow", Outcome: outcome, StartedAt: time.Now()})
			m := bus.Message{Subject: subject, Body: body}
			if refused {
				m.Header = bus.ExpectRevision(1_000_000) // the stream does not store it
			}
			if err == nil {
				_, err = b.Publish(t.Context(), m)
			}
			if err != nil && !refused {
				t.Fatal(err)
			}
		}
		publish(b.Result("s1", "c1"), tools.Async, false)
		cmd, out, ended := newRoot(), new(strings.Builder), make(chan error, 1)
		cmd.SetOut(out)
		go func() { ended <- watchTask(t.Context(), &client.Options{Session: "s1"}, b, "c1", cmd) }()
		time.Sleep(10 * time.Second)
		publish(b.Completion("s1", "c1"), tools.Completed, true)
		time.Sleep(10 * time.Second)
		if lines := strings.Count(out.String(), "\n"); lines != 1 {
			t.Errorf("before the end is stored, it has looked %d times: %s", lines, out)
		}
		publish(b.Completion("s1", "c1"), tools.Completed, false)
		if err := <-ended; err != nil || !strings.Contains(out.String(), "c1  completed") {
			t.Errorf("%v, %s", err, out)
		}
	})
}

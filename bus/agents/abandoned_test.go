package agents

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// The log of a session has a run without an end. The next run ends it: at once if its call has
// a result, after five minutes if its call is nowhere, and not before the end of its call if
// that waits in a queue.
func TestNextRunEndsAnAbandonedOne(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		const stale = 5 * time.Minute
		rows := []struct {
			session string
			queued  bool
			min     time.Duration // of the next run; a minute more is enough
		}{{"result", true, 0}, {"nowhere", false, stale}, {"queued", true, 2 * stale}}
		for _, row := range rows {
			entry, err := jsonform.Encode(agent.Entry{Kind: agent.KindUser, Run: "dead", At: time.Now().UTC(), Message: &agent.Message{Role: agent.RoleUser, Content: []agent.Block{agent.Text("go")}}})
			if err == nil {
				_, err = session.New(b).Append(t.Context(), row.session, 0, entry)
			}
			if err == nil && row.queued {
				_, err = rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt(row.session, "dead", "go"))
			}
			if err != nil {
				t.Fatal(err)
			}
			if row.queued {
				time.AfterFunc(row.min+time.Second, func() {
					if _, err := task.Cancel(t.Context(), b, row.session, "dead", "a test"); err != nil {
						t.Error(err)
					}
				})
			}
		}
		setup := NewToolsConfig(b, mem.New(offload.StoreConfig{}), bustest.Log(t))
		setup.Config.PollInterval = 10 * time.Second
		script, err := provider.ParseScript([]byte(`{"text":"hello"}`))
		if err != nil {
			t.Fatal(err)
		}
		next, began := agent.New(script, nil, setup.Conversations, setup.Config), time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		var runs sync.WaitGroup
		for _, row := range rows {
			runs.Go(func() {
				o, err := next.Run(ctx, tools.Call{ID: "next", Session: row.session}, agent.Text("hello?"))
				if took := time.Since(began); err != nil || o.Reply != "hello" || took < row.min || took > row.min+time.Minute {
					t.Errorf("%s: the next run takes %s: %+v, %v; want %s", row.session, took, o, err, row.min)
				}
				want := agent.Abandoned
				if row.queued {
					want = agent.Cancelled
				}
				if o, err := next.Run(ctx, tools.Call{ID: "dead", Session: row.session}, agent.Text("go")); err != nil || o.Reason != want {
					t.Errorf("%s: the run that was abandoned ended as %q, %v; want %q", row.session, o.Reason, err, want)
				}
				if n := kinds(t, b, row.session); n[agent.KindUser] != 2 || n[agent.KindEnd] != 2 {
					t.Errorf("%s: the log has %v", row.session, n)
				}
			})
		}
		runs.Wait()
	})
}

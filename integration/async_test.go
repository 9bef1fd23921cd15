package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// asyncLoad is a number of async calls. Each must have one completion and one
// notification.
type asyncLoad struct {
	load
	hook *hook
	runs string // file
	sent int
}

// The test kills three workers and two notifiers repeatedly while async calls run.
// Each call has one completion, and its user gets one notification.
// STEVEDORE_KILLS sets the number of kills, for 1,000 calls.
func TestKillAsyncWorkersAndNotifiers(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	total, kills := 100, 12
	if os.Getenv("STEVEDORE_KILLS") != "" {
		total, kills = 1000, killCount(t)
	}
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	bustest.Connect(t, server, bus.Config{Lease: shortLease}) // provisions

	events := make(chan struct{}, 100_000)
	happened := func() { events <- struct{}{} }
	l := &asyncLoad{load: load{plain: connect(t, server.URL())}, hook: newHook(t, happened), runs: filepath.Join(t.TempDir(), "runs")}
	run := func(role string) *child {
		return startChild(t, role, serverEnv+"="+server.URL(), hookEnv+"="+l.hook.URL, secretEnv+"="+hookSecret, runsEnv+"="+l.runs)
	}
	roles := []string{"worker", "worker", "worker", "notifier", "notifier"}
	children := make([]*child, len(roles))
	for i, role := range roles {
		children[i] = run(role)
	}

	began, killed := time.Now(), map[string]int{}
	const inFlight = 40
	pause := func() int { return 1 + rand.IntN(max(2*total/kills-1, 1)) } // in notifications
	next := pause()
	for l.hook.count() < total {
		for l.sent < min(total, l.hook.count()+inFlight) {
			l.publish()
		}
		select {
		case <-events:
		case <-time.After(testTimeout):
			t.Fatalf("%d of %d jobs were told of, and then no more", l.hook.count(), l.sent)
		}
		if next--; next > 0 || killed["worker"]+killed["notifier"] == kills {
			continue
		}
		next = pause()
		i := rand.IntN(len(roles))
		children[i].kill()
		killed[roles[i]]++
		children[i] = run(roles[i])
	}
	l.until("settle all calls", func() bool { return l.load.count("STEVEDORE_CALLS", ">") == 0 })
	l.until("empty the outbox", func() bool { return l.load.count("STEVEDORE_OUTBOX", ">") == 0 })
	for _, c := range children {
		c.kill()
	}
	l.hook.close() // no more requests
	unknown := l.checkEnds()
	t.Logf("%d jobs, of which %d ended unknown; %d kills of workers and %d of notifiers; %d notifications, accepted %d times in %d requests; %s",
		total, unknown, killed["worker"], killed["notifier"], l.hook.count(), l.hook.accepted, l.hook.requests, time.Since(began).Round(time.Millisecond))
}

// publish publishes one more call.
func (l *asyncLoad) publish() {
	l.Helper()
	size := 0
	if l.sent%10 == 0 {
		size = 20_000 // words, which are offloaded
	}
	l.plain.publish("stevedore.call.default.background_"+string(l.effect(l.sent)),
		fmt.Sprintf(`{"id":"%s","session":"async","args":{"ms":%d,"size":%d}}`, l.id(l.sent), rand.IntN(100), size))
	l.sent++
}

func (*asyncLoad) id(i int) string           { return fmt.Sprintf("j%d", i) }
func (*asyncLoad) effect(i int) tools.Effect { return asyncEffects[i%len(asyncEffects)] }

// checkEnds compares every call with its completion, its executions and its
// notification, and returns how many outcomes are unknown.
func (l *asyncLoad) checkEnds() (unknown int) {
	l.Helper()
	text, err := os.ReadFile(l.runs)
	if err != nil {
		l.Error(err)
	}
	ran := map[string]int{}
	for id := range strings.FieldsSeq(string(text)) {
		ran[id]++
	}
	for i := range l.sent {
		id := l.id(i)
		first, end := l.stored("STEVEDORE_RESULTS", "stevedore.result.async."+id), l.stored("STEVEDORE_RESULTS", "stevedore.completion.async."+id)
		if n := l.load.count("STEVEDORE_RESULTS", "stevedore.completion.async."+id); first.text("outcome") != "async" || n != 1 {
			l.Errorf("%s has %d completions behind %.300v", id, n, first)
			continue
		}
		told, known := l.hook.told["completion.async."+id]
		if !known {
			l.Errorf("%s: nobody was told of its end %.300v", id, end)
		}
		once := l.effect(i) == tools.Once
		switch outcome := end.text("outcome"); {
		case once && ran[id] > 1:
			l.Errorf("%s ran %d times", id, ran[id])
		case outcome == "completed" && (ran[id] == 0 || told.IsError || told.Text != "report of "+id || told.Call != id):
			l.Errorf("%s ran %d times, and this was told: %+v", id, ran[id], told)
		case outcome == "unknown" && once:
			unknown++
			if !told.IsError || !strings.Contains(told.Text, "unknown") {
				l.Errorf("%s is unknown, and this was told: %+v", id, told)
			}
		case outcome != "completed":
			l.Errorf("%s ended as %.300v", id, end)
		}
	}
	if n := l.load.count("STEVEDORE_DEAD", ">"); n != 0 {
		l.Errorf("%d dead letters", n)
	}
	if l.hook.count() != l.sent || len(l.hook.problems) > 0 {
		l.Errorf("%d jobs have %d notifications; %q", l.sent, l.hook.count(), l.hook.problems)
	}
	return unknown
}

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The test kills one of two notifiers repeatedly while they deliver to 20 chats, and
// some attempts fail. Each chat gets each notification, in order.
func TestKillNotifiers(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const chats = 20
	kills := killCount(t)
	total := 100 * (kills + 1)
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	bustest.Connect(t, server, bus.Config{Lease: shortLease}) // provisions

	events := make(chan struct{}, 100_000)
	hook, l := newHook(t, func() { events <- struct{}{} }), load{plain: connect(t, server.URL())}
	run := func() *child {
		return startChild(t, "notifier", serverEnv+"="+server.URL(), hookEnv+"="+hook.URL, secretEnv+"="+hookSecret)
	}
	children := []*child{run(), run()}
	want := map[string][]string{}
	began, killed, sent := time.Now(), 0, 0
	for hook.count() < total {
		for ; sent < min(total, hook.count()+5*chats); sent++ {
			chat, text := fmt.Sprint("c", sent%chats), fmt.Sprint(sent)
			l.plain.publish("stevedore.notify.hook", fmt.Sprintf(`{"chat_id":%q,"text":%q}`, chat, text))
			want[chat] = append(want[chat], text)
		}
		select {
		case <-events:
		case <-time.After(testTimeout):
			t.Fatalf("%d of %d notifications came, and then no more", hook.count(), sent)
		}
		if killed < kills && hook.count() >= (killed+1)*total/(kills+1) {
			i := rand.IntN(len(children))
			children[i].kill()
			killed++
			children[i] = run()
		}
	}
	took := time.Since(began)
	l.until("empty the outbox", func() bool { return l.count("STEVEDORE_OUTBOX", ">") == 0 })
	for _, c := range children {
		c.kill()
	}
	hook.close()
	for chat, texts := range want {
		if !slices.Equal(hook.chats[chat], texts) {
			t.Errorf("chat %s got %v", chat, hook.chats[chat])
		}
	}
	if dead := l.count("STEVEDORE_DEAD", ">"); dead != 0 || len(hook.problems) > 0 {
		t.Errorf("%d dead letters; %q", dead, hook.problems)
	}
	t.Logf("%d notifications, accepted %d times in %d requests, with %d kills; %.0f a second",
		total, hook.accepted, hook.requests, killed, float64(total)/took.Seconds())
}

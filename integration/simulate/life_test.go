package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// budget is what the models of life may cost a day; expensiveDay is the one on which it is spent.
const (
	budget       = 5
	expensiveDay = 4
)

// life is one "stevedore up" with its chats.
type life struct {
	*simulation
	networks map[string]*network // by channel
	chats    map[string]string   // the chat of each channel
	up       *process
	stops    []context.CancelFunc // of the bridges
	everyone sync.WaitGroup

	mu       sync.Mutex
	asked    []*question
	requests map[string]request // the last one for the answer to a question, by marker
	restarts []time.Time
	refused  int // questions, because the budget was spent
}

// TestLife runs the life of a person with three chats for as many days as STEVEDORE_LIFE says.
func TestLife(t *testing.T) {
	seed, days := number(t, "STEVEDORE_SIMULATE_SEED", 1), number(t, "STEVEDORE_LIFE", 0)
	if days == 0 {
		t.Skip("STEVEDORE_LIFE is not set; \"make life\" sets it")
	}
	l := &life{
		simulation: newSimulation(seed, 1),
		chats:      map[string]string{"telegram": "100", "team": "C1", "desk": "D1"},
		requests:   map[string]request{},
	}
	began := time.Now()
	bustest.Bubble(t, func(t *testing.T) {
		l.t, l.began, l.dir = t, time.Now(), t.TempDir()
		l.networks = map[string]*network{"telegram": newNetwork(), "team": newNetwork(), "desk": newNetwork()}
		l.live(time.Duration(days) * 24 * time.Hour)
		l.judgeLife()
		l.end()
	})
	t.Logf("seed %d: %d days in %.1f s, %d questions, %d of them without budget, %d faults", seed, days, time.Since(began).Seconds(), len(l.asked), l.refused, l.faults)
	if t.Failed() {
		for _, e := range l.events {
			t.Log(e)
		}
	}
}

// live simulates for a time, heals everything, and waits until nothing is left to do.
func (l *life) live(d time.Duration) {
	l.startServer()
	l.client = bustest.Connect(l.t, l.server.Load(), bus.Config{}) // provisions
	l.client.Close()
	l.client = l.connect(l.newLink())
	l.up = l.startUp()
	for _, name := range []string{"team", "desk"} {
		l.startBridge(name)
	}
	end := l.began.Add(d)
	for i, name := range []string{"telegram", "team", "desk"} {
		p := &person{life: l, channel: name, rnd: rand.New(rand.NewPCG(l.rnd.Uint64(), uint64(i)))}
		l.everyone.Go(func() { p.live(end) })
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(l.rnd.IntN(240)) * time.Minute)
		l.breakUp()
	}
	l.healing.Wait()
	l.everyone.Wait()
	l.settle()
}

// breakUp lets one thing fail.
func (l *life) breakUp() {
	l.faults++
	outage := time.Duration(1+l.rnd.IntN(90)) * time.Second
	if l.rnd.IntN(6) == 0 {
		outage *= 100 // the machine sleeps, or the network is away
	}
	switch fault := l.rnd.IntN(7); fault {
	case 0, 1:
		l.note("killed, and started after %v", outage)
		l.restarted()
		l.up.link.set(finished)
		l.killServer()
		old := l.up
		l.healing.Go(func() { old.stop(); old.bus.Close() })
		time.Sleep(outage)
		l.startServer()
		l.up = l.startUp()
	case 2:
		l.note("stopped, and started after %v", outage)
		l.restarted()
		l.up.stop()
		l.up.bus.Close()
		l.unplug().Close()
		time.Sleep(outage)
		l.startServer()
		l.up = l.startUp()
	case 3, 4:
		how := []int{1, http.StatusBadGateway, http.StatusTooManyRequests}[l.rnd.IntN(3)]
		l.note("telegram fails with %d for %v", how, outage)
		l.networks["telegram"].fail(how)
		l.healing.Go(func() { time.Sleep(outage); l.networks["telegram"].fail(0) })
	default:
		i := fault - 5
		name := []string{"team", "desk"}[i]
		l.note("the bridge of %s dies, and starts after %v", name, outage)
		l.stops[i]()
		time.Sleep(outage)
		stop := l.startBridge(name)
		l.stops[i], l.stops = stop, l.stops[:2]
	}
}

// restarted notes the time of a restart: what telegram was sent before may come again.
func (l *life) restarted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarts = append(l.restarts, time.Now())
}

// startUp starts what "stevedore up --model M --receive telegram,team,desk" runs.
func (l *life) startUp() *process {
	t := l.t
	p := &process{link: l.newLink()}
	p.bus = l.connect(p.link)
	store := l.openStore(p.bus)
	reader := offload.NewReader(store, offload.ReaderConfig{})
	facts, err := state.OpenFile(filepath.Join(l.dir, "state.json"), state.FileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	bot, err := channel.NewTelegram("token", channel.BotConfig{Chat: l.chats["telegram"], Transport: telegram{l.networks["telegram"], p.link}})
	if err != nil {
		t.Fatal(err)
	}
	channels, bridges := map[string]channel.Channel{"telegram": bot}, map[string]*channel.Bridge{}
	for _, name := range []string{"team", "desk"} {
		if bridges[name], err = channel.NewBridge(l.chats[name], "", ""); err != nil {
			t.Fatal(err)
		}
		channels[name] = bridges[name]
	}
	log := bustest.Log(t)
	notifier, err := notify.New(p.bus, notify.Config{
		Channels: channels, Default: "telegram", Facts: facts, Grace: 2 * time.Second, Log: log,
		Conversations: agents.NewConversations(p.bus, facts, []string{"telegram", "team", "desk"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := tools.NewRegistry(log)
	setup := agents.NewToolsConfig(p.bus, store, log)
	setup.Definitions, setup.DefaultModel = registry.Definitions, "m"
	setup.Models = map[string]agent.Provider{"m": &friend{life: l, process: p}}
	setup.Config.CheckBudget, setup.Config.SendOutput = agents.NewBudget(p.bus, budget, 0, log).Check, agents.OutputSender(notifier)
	running, err := agent.Tools(setup)
	if err != nil {
		t.Fatal(err)
	}
	all := append(p.tools(t, l.ledger), builtin.NewMessage(agents.Sender{Notifier: notifier, Reader: reader}), cron.New(p.bus).Tool(cron.ToolConfig{}))
	if err := registry.Register(append(all, running...)...); err != nil {
		t.Fatal(err)
	}
	w := worker.New(p.bus, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{
		Queues: append([]string{bus.DefaultQueue}, agents.Queues(0)...), Ticks: true, Slots: 8, State: facts, Reader: reader, OwnServer: true, Grace: 2 * time.Second, Log: log,
		Approvals: approvals.Rules{Needed: func(call tools.Call) bool { return call.Tool == "asked" }, Ask: func(ctx context.Context, a approvals.Approval) error {
			_, err := notifier.Send(ctx, channel.Notification{
				ID: fmt.Sprintf("approval.%s.%s", a.Session, a.ID), Session: a.Session, Call: a.ID, Tool: a.Tool, Channel: a.Channel, ChatID: a.ChatID,
				Text: "May asked run for " + a.ID + "?", Approval: &channel.Approval{Session: a.Session, ID: a.ID, Tool: a.Tool, Deadline: a.Deadline},
			})
			return err
		}},
	})
	service := rpc.NewService(p.bus, reader, rpc.ServiceConfig{Log: log})
	if err := notifier.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	parts := []func(context.Context) error{w.Run, notifier.Run, service.Run}
	for name, to := range channels {
		inbox := agents.NewInbox(p.bus, notifier, store, name, to, log)
		parts = append(parts, func(ctx context.Context) error {
			defer inbox.Close()
			if name == "telegram" {
				return bot.Receive(ctx, inbox, log)
			}
			return inbox.ServeBridge(ctx, bridges[name])
		})
	}
	p.stop = bustest.Run(t, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range parts {
			group.Go(func() error {
				if err := run(ctx); err != nil && ctx.Err() == nil && !p.link.died() {
					t.Errorf("%s a part of up ended: %v", clock(), err)
				}
				return nil
			})
		}
		return group.Wait()
	})
	return p
}

// startBridge runs the program at the other end of a bridge, as docs/agents.md describes it.
func (l *life) startBridge(name string) context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	link := l.newLink()
	b := l.connect(link)
	var running sync.WaitGroup
	running.Go(func() { l.bringToChat(ctx, b, name) })
	running.Go(func() { l.handIn(ctx, b, name) })
	stop := func() { cancel(); link.set(finished); running.Wait(); b.Close() }
	l.stops = append(l.stops, stop)
	return stop
}

// bringToChat shows the notifications of a channel in its network.
func (l *life) bringToChat(ctx context.Context, b *bus.Bus, name string) {
	n := l.networks[name]
	for ; ctx.Err() == nil; _ = tools.Sleep(ctx, time.Second) {
		consumer, err := b.JetStream().Consumer(ctx, "STEVEDORE_OUTBOX", "notify-"+name)
		for err == nil && ctx.Err() == nil {
			var m jetstream.Msg
			if m, err = consumer.Next(jetstream.FetchMaxWait(20 * time.Second)); err != nil {
				if errors.Is(err, nats.ErrTimeout) {
					err = nil
					continue
				}
				break
			}
			var sent struct{ ID string }
			var prepared channel.Prepared
			answer, err := rpc.Request(ctx, b, b.RPC("message", name), map[string]any{"prepare": json.RawMessage(m.Data()), "subject": m.Subject()})
			if err == nil {
				err = errors.Join(json.Unmarshal(answer, &prepared), json.Unmarshal(m.Data(), &sent))
			}
			if err != nil {
				break // the consumer delivers it again
			}
			for i, part := range prepared.Parts {
				n.put(shown{chat: prepared.ChatID, text: part, nonce: fmt.Sprint(sent.ID, i), keyboard: prepared.Approval})
			}
			_ = m.Ack() // otherwise it comes again, and the network knows it
		}
	}
}

// handIn hands in what the users of a network write.
func (l *life) handIn(ctx context.Context, b *bus.Bus, name string) {
	n := l.networks[name]
	for ; ctx.Err() == nil; _ = tools.Sleep(ctx, 2*time.Second) {
		n.mu.Lock()
		waiting := append([]written(nil), n.waiting...)
		n.mu.Unlock()
		for _, w := range waiting {
			in := map[string]any{"id": fmt.Sprint(w.number), "chat_id": w.chat, "text": w.text, "position": fmt.Sprint(w.number)}
			if w.button != "" {
				in = map[string]any{"chat_id": w.chat, "decide": map[string]any{"key": w.on.keyboard, "approve": w.button == "yes"}}
			}
			if _, err := rpc.Request(ctx, b, b.RPC("message", name), in); err != nil {
				break
			}
			n.mu.Lock()
			n.waiting = n.waiting[1:]
			n.mu.Unlock()
		}
	}
}

// end ends everything, so that the bubble can end.
func (l *life) end() {
	for _, stop := range l.stops {
		stop()
	}
	l.up.stop()
	l.up.bus.Close()
	l.client.Close()
	l.server.Load().Close()
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// process is one of the installation: a worker, a notifier and a service, with their own link.
type process struct {
	link *link
	bus  *bus.Bus
	stop func() // and waits
}

// startProcess starts a process once the server answers.
func startProcess(t *testing.T, s *simulation) *process {
	p := &process{link: s.newLink()}
	p.bus = s.connect(p.link)
	store := &flakyStore{s.openStore(p.bus), s}
	log := bustest.Log(t)
	registry := tools.NewRegistry(log)
	if err := registry.Register(append(p.tools(t, s.ledger), p.agentTools(t, store, registry, s.ledger)...)...); err != nil {
		t.Fatal(err)
	}
	w := worker.New(p.bus, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{
		Queues: append([]string{bus.DefaultQueue}, agents.Queues(1)...), Approvals: approvals.Rules{Needed: func(call tools.Call) bool { return call.Tool == "asked" }},
		// With fewer slots, long calls of agents take all of them at times, and no call of a calm time begins soon.
		Ticks: true, Slots: 16, ClaimTimeout: 40 * time.Second, Grace: 2 * time.Second, Log: log,
	})
	n, err := notify.New(p.bus, notify.Config{Channels: map[string]channel.Channel{"chat": &chat{p.link, s.ledger}}, Default: "chat", Conversations: completions{agents.NewConversations(p.bus, nil, nil)}, Grace: 2 * time.Second, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	service := rpc.NewService(p.bus, offload.NewReader(store, offload.ReaderConfig{}), rpc.ServiceConfig{Log: log})
	p.stop = bustest.Run(t, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range []func(context.Context) error{w.Run, n.Run, service.Run} {
			group.Go(func() error {
				// A part that cannot start while the server is away starts again, as under a supervisor.
				for err := run(ctx); err != nil && ctx.Err() == nil && !p.link.died(); err = run(ctx) {
					log.Warn().Err(err).Msg("a part of a process ended")
					_ = tools.Sleep(ctx, time.Second) // ends with ctx
				}
				return nil
			})
		}
		return group.Wait()
	})
	return p
}

// completions adds only the completions of async calls to the conversations.
type completions struct{ agents.Conversations }

// Received implements notify.Conversations.
func (completions) Received(context.Context, channel.Notification, string) error { return nil }

// args are those of all simulated tools.
type args struct {
	MS   int    `json:"ms"`             // how long the tool runs
	Size int    `json:"size,omitempty"` // of its result
	User string `json:"user,omitempty"` // the text for the user
	Job  string `json:"job,omitempty"`  // the schedule
	Tree string `json:"tree,omitempty"` // the run that asked for it, or whose sub-agent did
}

// tools returns one tool of each effect and an async one.
func (p *process) tools(t *testing.T, l *ledger) (list []tools.Tool) {
	run := func(ctx context.Context, call tools.Call, in args) *tools.Result {
		if p.link.died() { // the process does nothing any more
			<-ctx.Done()
			return tools.ErrorResult("died")
		}
		l.ran(call.ID, !p.link.brokeSince(time.Now().Add(-time.Minute)))
		if call.Tool == "asked" && !l.isApproved(call.IDToken()) {
			l.wrong(fmt.Sprint(clock(), " ", call.ID, " ", in.Tree, " ran without its approval"))
		}
		if in.Job == "cut" {
			l.wrong(call.ID + " ran although the model did not finish it")
		}
		if in.Tree != "" {
			l.grew(in.Tree, call.Tool)
		}
		if in.Job != "" {
			l.jobRan(in.Job, call.ID)
		}
		if call.Tool == "poison" && l.timesRan(call.ID) <= attempts {
			p.link.set(finished)
			<-ctx.Done()
			return tools.ErrorResult("died")
		}
		if err := tools.Sleep(ctx, time.Duration(in.MS)*time.Millisecond); err != nil {
			return tools.Failure(err)
		}
		return &tools.Result{ForLLM: output(l.tenant+call.ID, in.Size), UserContent: tools.UserContent{ForUser: in.User}, Silent: in.User == ""}
	}
	for name, effect := range map[string]tools.Effect{"once": tools.Once, "keyed": tools.Keyed, "asked": tools.Keyed, "idempotent": tools.Idempotent, "poison": tools.Idempotent} {
		tool, err := tools.NewTool(name, "a simulated tool", run)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, tool.WithEffect(effect))
	}
	def := list[0].Definition()
	def.Name, def.Effect = "async", tools.Idempotent
	return append(list, asyncTool{def, run})
}

// asyncTool runs in the background.
type asyncTool struct {
	def tools.Definition
	run func(context.Context, tools.Call, args) *tools.Result
}

func (a asyncTool) Definition() tools.Definition { return a.def }

func (a asyncTool) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("this tool runs in the background only")
}

func (a asyncTool) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	var in args
	if err := tools.DecodeStrict(call.Args, &in); err != nil {
		return tools.Failure(err)
	}
	go func() { callback(ctx, a.run(ctx, call, in)) }()
	return tools.AsyncResult("started")
}

// output returns the text of a result, which names its call.
func output(call string, size int) string {
	text := "the result of " + call
	if size > len(text) {
		text += strings.Repeat(fmt.Sprintf("\na line of the result of %s", call), size/len(text))
	}
	return text
}

// chat is the user's side of a channel. It drops duplicates by their id. It answers late to some, and to others with
// an error, before or after they have arrived.
type chat struct {
	link   *link
	ledger *ledger
}

// rejects reports whether the chat makes a notification a dead letter, once.
func rejects(id string) bool { return crc32.ChecksumIEEE([]byte(id))%20 == 3 }

// Send implements channel.Channel.
func (c *chat) Send(ctx context.Context, n channel.Notification) error {
	if c.link.died() {
		return errDown
	}
	began, hash := time.Now(), crc32.ChecksumIEEE([]byte(n.ID))
	fails := hash%20 < 3 && c.ledger.failOnce(n.ID)
	switch {
	case fails && hash%20 == 0:
		return errors.New("the chat is down")
	case rejects(n.ID) && c.ledger.failOnce(n.ID):
		return consume.Reject("blocked", errors.New("the chat refuses the message"))
	case fails && hash%20 == 1:
		return consume.RetryAfter(40*time.Second, errors.New("the chat has too many messages"))
	}
	c.ledger.deliver(n.ChatID, n.ID, n.Text)
	if fails {
		return errors.New("the chat answers with garbage")
	}
	if hash%12 == 0 { // for longer than the lease of a chat
		if err := tools.Sleep(ctx, time.Duration(3+hash%10)*time.Second); err != nil {
			return err
		}
	}
	time.AfterFunc(soon, func() {
		if !c.link.brokeSince(began) { // the server has the acknowledgement
			c.ledger.settle(n.ID)
		}
	})
	return nil
}

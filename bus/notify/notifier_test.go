package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// recorder is a channel whose receiver can be down, and can accept a notification
// and report an error.
type recorder struct {
	got chan channel.Notification

	mu      sync.Mutex
	before  error // returned instead of accepting
	after   error // returned once, although accepted
	refused int
}

func newRecorder() *recorder { return &recorder{got: make(chan channel.Notification, 1000)} }

func (r *recorder) set(before, after error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.after = before, after
}

func (r *recorder) refusals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *recorder) Send(_ context.Context, n channel.Notification) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before != nil {
		r.refused++
		return r.before
	}
	r.got <- n
	err := r.after
	r.after = nil
	return err
}

func (r *recorder) next(t *testing.T) channel.Notification {
	t.Helper()
	select {
	case n := <-r.got:
		return n
	case <-time.After(bustest.Timeout):
		t.Fatal("no notification came")
		panic("unreachable")
	}
}

// start runs a notifier until the test ends, or stop is called.
func start(t *testing.T, b *bus.Bus, cfg Config) (stop func()) {
	t.Helper()
	cfg.Log = bustest.Log(t)
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return bustest.Run(t, n.Run)
}

func publish(t *testing.T, b *bus.Bus, subject, body string) {
	t.Helper()
	if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

// memory is a state.Store in memory, with the last channels of sessions.
type memory map[string]string

func (m memory) Get(_ context.Context, key string) (state.Fact, error) {
	return state.Fact{Value: m[key]}, nil
}

func (m memory) Set(_ context.Context, values map[string]string) error {
	maps.Copy(m, values)
	return nil
}

// lastChannels returns a state with the last channel and chat of each session.
func lastChannels(t *testing.T, last map[string][2]string) state.Store {
	t.Helper()
	store := memory{}
	for session, to := range last {
		if err := state.SetLastChannel(t.Context(), store, session, state.Channel{Name: to[0], ChatID: to[1]}, session == ""); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestRouting(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console, chat := newRecorder(), newRecorder()
	start(t, b, Config{
		Channels: map[string]channel.Channel{"console": console, "chat": chat},
		Facts:    lastChannels(t, map[string][2]string{"s1": {"chat", "42"}, "": {"chat", "7"}}),
	})
	for i, test := range []struct {
		kind, session, event string
		on                   *recorder
		want                 channel.Notification
	}{
		{"result", "s0", `{"for_user":"default","tool":"shell"}`, console, channel.Notification{Text: "default", Tool: "shell"}},
		{"result", "s0", `{"for_user":"**bold**","markdown":true}`, console, channel.Notification{Text: "**bold**", Format: channel.FormatMarkdown}},
		{"completion", "s0", `{"for_llm":"__init__.py fails","tool":"x","outcome":"failed","is_error":true,"markdown":true}`, console,
			channel.Notification{Text: "x did not succeed (failed): __init__.py fails", Tool: "x", IsError: true}},
		{"result", "s0", `{"for_user":"forged","session":"other"}`, console, channel.Notification{Text: "forged", Session: "s0"}},
		{"result", tools.Token("a b"), `{"for_user":"own words","session":"a b"}`, console, channel.Notification{Text: "own words", Session: "a b"}},
		{"result", "s1", `{"for_user":"session's last"}`, chat, channel.Notification{Text: "session's last", ChatID: "42"}},
		{"result", "s1", `{"for_user":"the call's","channel":"console","chat_id":"9"}`, console, channel.Notification{Text: "the call's", ChatID: "9"}},
		{"result", "s0", `{"for_user":"anywhere","channel":"last"}`, chat, channel.Notification{Text: "anywhere", ChatID: "7"}},
		{"result", "s0", `{"for_user":"nobody","channel":"pager","chat_id":"1"}`, console, channel.Notification{Text: "nobody", Note: noteOn("pager")}},
		{"result", "s0", `{"for_user":"hostile","channel":"*.>\u0000"}`, console, channel.Notification{Text: "hostile", Note: noteOn("*.>\x00")}},
		{"completion", "s0", `{"tool":"spawn","outcome":"failed","silent":true,"is_error":true,"error":{"code":"x","message":"it broke"}}`, console,
			channel.Notification{Text: "spawn did not succeed (failed): it broke", Tool: "spawn", IsError: true}},
		{"result", "s0", `{"tool":"shell","action":"cron","outcome":"timeout","is_error":true,"for_llm":"too slow"}`, console,
			channel.Notification{Text: "shell did not succeed (timeout): too slow", Tool: "shell", IsError: true}},
		{"result", "s0", `{"id":"cron-tea-time-20261121T095003Z","tool":"shell","action":"cron","outcome":"failed","is_error":true,"for_user":"no water","error":{"code":"tool_failed","message":"exit code 3"}}`, console,
			channel.Notification{Text: "The cron job tea-time did not succeed (failed): exit code 3\nno water", Call: "cron-tea-time-20261121T095003Z", Tool: "shell", IsError: true}},
		{"result", "s0", `{"id":"heartbeat-main-20261121T095003123Z-7","tool":"agent","action":"heartbeat","outcome":"timeout","is_error":true,"for_llm":"too slow"}`, console,
			channel.Notification{Text: "The heartbeat main did not succeed (timeout): too slow", Call: "heartbeat-main-20261121T095003123Z-7", Tool: "agent", IsError: true}},
		{"result", "s0", `{"id":"cron-tea-time-20261121T095004Z","tool":"shell","action":"cron","for_user":"(no output)"}`, console,
			channel.Notification{Text: "(no output)", Call: "cron-tea-time-20261121T095004Z", Tool: "shell", Note: "from the cron job tea-time"}},
		{"result", "s0", `{"id":"heartbeat-main-20261121T095004123Z","tool":"agent","action":"heartbeat","for_user":"*news*","markdown":true,"channel":"pager"}`, console,
			channel.Notification{Text: "*news*", Format: channel.FormatMarkdown, Call: "heartbeat-main-20261121T095004123Z", Tool: "agent", Note: "from the heartbeat main; " + noteOn("pager")}},
		{"result", "s0", `{"for_user":"HEARTBEAT_OK and more","action":"heartbeat"}`, console, channel.Notification{Text: "HEARTBEAT_OK and more"}},
		{"result", "s0", `{"for_user":"HEARTBEAT_OK"}`, console, channel.Notification{Text: "HEARTBEAT_OK"}},
	} {
		call := cmp.Or(test.want.Call, fmt.Sprint("c", i))
		subject := b.Report(test.session, call)
		if test.kind == "completion" {
			subject = b.Completion(test.session, call)
		}
		publish(t, b, subject, test.event)
		got := test.on.next(t)
		if got.ID != test.kind+"."+test.session+"."+call || got.Kind != test.kind {
			t.Errorf("%s: id %q, kind %q", test.event, got.ID, got.Kind)
		}
		got.ID, got.Kind, got.Channel, got.At = "", "", "", time.Time{}
		if got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", test.event, got, test.want)
		}
	}
	// The events without a notification come first.
	for i, event := range []string{
		`{"for_llm":"for the model"}`,
		`{"for_user":"quiet","silent":true}`,
		`{"for_user":" \n"}`,
		`{"is_error":true,"outcome":"failed","for_llm":"the model reacts"}`,
		`{"for_user":" HEARTBEAT_OK\n","action":"heartbeat"}`,
		`{"for_llm":"HEARTBEAT_OK\n","for_user":"252G free","action":"heartbeat"}`,
	} {
		publish(t, b, b.Report("s0", fmt.Sprint("q", i)), event)
	}
	publish(t, b, b.Claim("s0", "c1"), `{"for_user":"a claim"}`)
	waitAcked(t, b, b.NotifierConsumer())
	publish(t, b, b.Report("s0", "end"), `{"for_user":"end"}`)
	if got := console.next(t); got.Text != "end" {
		t.Errorf("got %+v", got)
	}
	if n := len(chat.got) + len(console.got); n > 0 {
		t.Errorf("%d notifications too many", n)
	}
}

// A notifier that ended between the publish to the outbox and the ack of the
// result publishes it again; the outbox stores it once.
func TestResultTwiceNotifiesOnce(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	n, err := New(b, Config{Channels: map[string]channel.Channel{"console": newRecorder()}})
	if err != nil {
		t.Fatal(err)
	}
	d := &consume.Delivery{Subject: b.Report("s", "c"), Body: []byte(`{"for_user":"once"}`), Published: time.Now()}
	for range 3 {
		if err := n.route(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if got := bustest.Messages(t, b, bus.Outbox); got != 1 {
		t.Errorf("%d notifications in the outbox", got)
	}
}

// A client that notifies under the ID of a result does not suppress the notification of
// that result: neither in the outbox nor as one that the channel accepted before.
func TestForeignIDSuppressesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console := newRecorder()
	start(t, b, Config{Channels: map[string]channel.Channel{"console": console}})
	forged := &nats.Msg{Subject: b.NotifyAny("console"), Data: []byte(`{"id":"result.s.c","text":"forged"}`), Header: nats.Header{bus.OnceHeader: {"1"}, "Nats-Msg-Id": {"result.s.c"}}}
	if _, err := b.JetStream().PublishMsg(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	if got := console.next(t); got.Text != "forged" {
		t.Fatalf("got %+v", got)
	}
	publish(t, b, b.Report("s", "c"), `{"id":"c","session":"s","outcome":"completed","for_user":"the answer"}`)
	if got := console.next(t); got.Text != "the answer" {
		t.Errorf("got %+v", got)
	}
	publish(t, b, b.Report("s", "other"), `{"id":"c","session":"s","outcome":"completed","for_user":"of another call"}`)
	publish(t, b, b.Report("s", "last"), `{"id":"last","session":"s","outcome":"completed","for_user":"last"}`)
	if got := console.next(t); got.Text != "last" {
		t.Errorf("got %+v", got)
	}
}

// If the receiver accepts a notification but the response is lost, the next
// attempt has the same id and comes before the next notification.
func TestLostResponseRepeatsTheSameID(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console := newRecorder()
	console.set(nil, consume.RetryAfter(time.Millisecond, errors.New("the response was lost")))
	start(t, b, Config{Channels: map[string]channel.Channel{"console": console}})
	publish(t, b, b.NotifyAny("console"), `{"text":"first"}`)
	publish(t, b, b.NotifyAny("console"), `{"text":"second"}`)
	first, again, second := console.next(t), console.next(t), console.next(t)
	if first.ID == "" || first.ID != again.ID || again.Text != "first" {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if second.Text != "second" || second.ID == first.ID || second.Kind != channel.KindMessage || second.At.IsZero() {
		t.Errorf("second %+v", second)
	}
}

// A channel that is down keeps its notifications in order and delays no other
// channel, also after a restart and with two notifiers that share it.
func TestDownChannelDelaysNoOther(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{})
		up, down := newRecorder(), newRecorder()
		down.set(consume.RetryAfter(10*time.Millisecond, errors.New("is down")), nil)
		cfg := Config{Channels: map[string]channel.Channel{"console": up, "down": down}}
		stop := start(t, b, cfg)
		start(t, bustest.Connect(t, s, bus.Config{}), cfg)
		const count = 30
		for i := range count {
			publish(t, b, b.Report("s", fmt.Sprint("d", i)), fmt.Sprintf(`{"for_user":"%d","channel":"down"}`, i))
			publish(t, b, b.Report("s", fmt.Sprint("u", i)), fmt.Sprintf(`{"for_user":"%d"}`, i))
			up.next(t)
			waitAcked(t, b, b.NotifierConsumer()) // routing is parallel; only the outbox keeps the order
		}
		bustest.WaitUntil(t, "five refusals", func() bool { return down.refusals() >= 5 })
		stop()
		down.set(nil, nil)
		for i := range count {
			if got := down.next(t); got.Text != fmt.Sprint(i) {
				t.Fatalf("notification %d is %q", i, got.Text)
			}
		}
	})
}

func TestRejectedNotificationBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console := newRecorder()
	console.set(consume.Reject("forbidden", errors.New("the bot was blocked")), nil)
	letters := bustest.Subscribe(t, b, "stevedore.dead.>")
	start(t, b, Config{Channels: map[string]channel.Channel{"console": console}})
	for body, code := range map[string]string{`{"text":"hello"}`: "forbidden", `{"text":""}`: "undecodable", `nothing`: "undecodable"} {
		publish(t, b, b.NotifyAny("console"), body)
		letter, msg := bustest.Next[dead.Letter](t, letters)
		if letter.Code != code || letter.Reason == "" || msg.Subject != "stevedore.dead.notification.console" {
			t.Errorf("%s: dead letter %+v on %s", body, letter, msg.Subject)
		}
	}
}

func TestGivesUpWithTheReason(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		console := newRecorder()
		console.set(errors.New("the disk is full"), nil)
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		publish(t, b, b.Notify("console", ""), `{"text":"hello"}`)
		time.Sleep(giveUp)
		start(t, b, Config{Channels: map[string]channel.Channel{"console": console}})
		if letter, _ := bustest.Next[dead.Letter](t, letters); letter.Code != "undeliverable" || letter.Reason != "not delivered within 24h0m0s: the disk is full" {
			t.Errorf("dead letter %+v", letter)
		}
	})
}

// A sweep moves notifications of a channel without a consumer to the default
// channel, with a note.
func TestSweepMovesToTheDefaultChannel(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console := newRecorder()
	cfg := Config{Channels: map[string]channel.Channel{"console": console}}
	start(t, b, cfg)
	tooLarge := fmt.Sprintf(`{"text":"x","tool":"%s"}`, strings.Repeat("x", int(b.Conn().MaxPayload())-100)) // with a note
	publish(t, b, b.NotifyAny("pager"), tooLarge)
	publish(t, b, b.NotifyAny("pager"), `{"text":"one","chat_id":"5"}`)
	publish(t, b, b.NotifyAny("pager"), `not JSON`)
	if _, err := b.JetStream().CreateConsumer(t.Context(), b.StreamName(bus.Outbox), consumerOf(b, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.NotifyAny("elsewhere"), `{"text":"waits for its own process"}`)
	edited, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Outbox))
	if err != nil {
		t.Fatal(err)
	}
	settings := edited.CachedInfo().Config
	settings.Subjects = append(settings.Subjects, "foreign")
	if _, err := b.JetStream().UpdateStream(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), "foreign", []byte("of another program")); err != nil {
		t.Fatal(err)
	}
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := n.sweepOnce(t.Context(), time.Now().Add(-time.Hour)); moved != 0 || err != nil {
		t.Errorf("moved %d that are young, %v", moved, err)
	}
	if moved, err := n.sweepOnce(t.Context(), time.Now().Add(time.Hour)); moved != 3 || err != nil || bustest.Messages(t, b, bus.Dead) != 1 {
		t.Errorf("moved %d, %v", moved, err)
	}
	if got := console.next(t); got.Text != "one" || !strings.HasPrefix(got.Note, `for channel "pager", which has no consumer; channels here: console`) || got.ChatID != "" {
		t.Errorf("got %+v", got)
	}
	if got := console.next(t); got.Text != "a notification of 8 bytes that is not valid" {
		t.Errorf("got %+v", got)
	}
	if moved, err := n.sweepOnce(t.Context(), time.Now().Add(time.Hour)); moved != 0 || err != nil {
		t.Errorf("moved %d again, %v", moved, err)
	}
	// A channel that is gone keeps its consumer until somebody removes that, as "stevedore status" advises.
	if err := RemoveChannel(t.Context(), b, "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if moved, err := n.sweepOnce(t.Context(), time.Now().Add(time.Hour)); moved != 1 || err != nil {
		t.Errorf("moved %d of a channel that is gone, %v", moved, err)
	}
	if err := RemoveChannel(t.Context(), b, "elsewhere"); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("a channel that is unknown: %v", err)
	}
	// If somebody removes that of the default channel, what waits for it has no other place, also if it is moved each time.
	if n, err = New(b, Config{Default: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.NotifyAny("elsewhere"), `{"text":"it stays"}`)
	if moved, err := n.sweepOnce(t.Context(), time.Now().Add(time.Hour)); moved != 0 || err != nil {
		t.Errorf("moved %d from the default channel to itself, %v", moved, err)
	}
}

// A notification that only a console shows stays marked when it moves: to the default channel, and to its
// chat, also if it is so large that the header of its id does not fit.
func TestMovedNotificationStaysAside(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	outbox := bustest.Subscribe(t, b, b.Notify("console", "*"))
	cfg := Config{Channels: map[string]channel.Channel{"console": newRecorder()}}
	start(t, b, cfg)
	large := `{"text":"` + strings.Repeat("x", int(b.Conn().MaxPayload())-1072) + `"}`
	for _, m := range []bus.Message{
		{Subject: b.NotifyAny("console"), Body: []byte(large), Key: strings.Repeat("k", 1000)},
		{Subject: b.NotifyAny("pager"), Body: []byte(`{"text":"one"}`)},
	} {
		m.Header = nats.Header{bus.AsideHeader: {"1"}}
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	got := func() *nats.Msg { t.Helper(); _, msg := bustest.Next[channel.Notification](t, outbox); return msg }
	if msg := got(); len(msg.Data) != len(large) || msg.Header.Get(bus.AsideHeader) == "" || msg.Header.Get("Stevedore-Id") != "" {
		t.Errorf("%d bytes with the header %v", len(msg.Data), msg.Header)
	}
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := n.sweepOnce(t.Context(), time.Now().Add(time.Hour)); moved != 1 || err != nil {
		t.Errorf("moved %d, %v", moved, err)
	}
	if msg := got(); msg.Header.Get(bus.AsideHeader) == "" {
		t.Errorf("the header %v", msg.Header)
	}
}

func TestLongTextIsCutForTheBus(t *testing.T) {
	b := bustest.New(t)
	n, err := New(b, Config{Channels: map[string]channel.Channel{"console": newRecorder()}})
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = 'x'
	}
	if err := n.put(t.Context(), channel.Notification{ID: "a", Channel: "console", Text: string(text)}, false); err != nil {
		t.Fatal(err)
	}
	if got := bustest.Messages(t, b, bus.Outbox); got != 1 {
		t.Errorf("%d notifications in the outbox", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	b := bustest.New(t)
	for _, cfg := range []Config{
		{Channels: map[string]channel.Channel{"a.b": newRecorder()}},
		{Channels: map[string]channel.Channel{tools.LastChannel: newRecorder()}},
		{Default: "*"},
	} {
		if _, err := New(b, cfg); err == nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
	n, err := New(b, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err == nil {
		t.Error("runs without its default channel")
	}
}

// An old result causes no notification.
func TestOldResultsAreNotRouted(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	n, err := New(b, Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &consume.Delivery{Subject: b.Report("s", "c"), Body: []byte(`{"for_user":"old"}`), Published: time.Now().Add(-25 * time.Hour)}
	if err := n.route(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := bustest.Messages(t, b, bus.Outbox); got != 0 {
		t.Errorf("%d notifications in the outbox", got)
	}
}

// noteOn returns the note that a channel has no consumer, if console and chat have
// one.
func noteOn(channel string) string {
	return fmt.Sprintf("for channel %q, which has no consumer; channels here: chat, console", channel)
}

// A pause that the receiver asks for stops a chat, so the log contains the channel and
// the time.
func TestPauseIsLogged(t *testing.T) {
	t.Parallel()
	chat, log := newRecorder(), new(strings.Builder)
	chat.set(consume.RetryAfter(time.Hour, errors.New("not now")), nil)
	b := bustest.New(t)
	n, err := New(b, Config{Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.NotifyAny("chat"), `{"text":"hello"}`)
	before := time.Now().Truncate(time.Second)
	ctx, stop := context.WithCancel(t.Context())
	err = consume.Run(ctx, b, b.ChannelConsumer("chat"), consume.Config{}, func(ctx context.Context, d *consume.Delivery) error {
		defer stop()
		return n.deliver(ctx, chat, channel.Notification{Channel: "chat", ID: d.ID(), Text: "hello"}, d)
	})
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		Channel string
		Until   time.Time
	}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil || line.Channel != "chat" || line.Until.Before(before.Add(time.Hour)) {
		t.Errorf("log %q, %v", log, err)
	}
}

// waitAcked waits until a consumer has settled all messages.
func waitAcked(t *testing.T, b *bus.Bus, c bus.Consumer) {
	t.Helper()
	bustest.WaitUntil(t, "consumer "+c.Name, func() bool {
		info, ok, err := b.ConsumerInfo(t.Context(), c)
		return err == nil && ok && info.NumPending == 0 && info.NumAckPending == 0
	})
}

func consumerOf(b *bus.Bus, channel string) jetstream.ConsumerConfig {
	c := b.ChannelConsumer(channel)
	return jetstream.ConsumerConfig{Durable: c.Name, FilterSubjects: c.Filter, AckPolicy: jetstream.AckExplicitPolicy}
}

package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// chatRecorder is a channel that records what each chat accepts. It fails the test if
// it gets two notifications of a chat at once.
type chatRecorder struct {
	t      *testing.T
	refuse func(channel.Notification) error // nil accepts; called under the lock

	mu       sync.Mutex
	texts    map[string][]string
	attempts map[string]int // by chat
	running  map[string]bool
	most     int // attempts at once
}

func newChatRecorder(t *testing.T, refuse func(channel.Notification) error) *chatRecorder {
	return &chatRecorder{t: t, refuse: refuse, texts: map[string][]string{}, attempts: map[string]int{}, running: map[string]bool{}}
}

func (c *chatRecorder) Send(_ context.Context, n channel.Notification) error {
	c.mu.Lock()
	if c.running[n.ChatID] {
		c.t.Errorf("two notifications of chat %q at once", n.ChatID)
	}
	c.running[n.ChatID] = true
	c.most = max(c.most, len(c.running))
	c.mu.Unlock()
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, n.ChatID)
	c.attempts[n.ChatID]++
	if c.refuse != nil {
		if err := c.refuse(n); err != nil {
			return err
		}
	}
	c.texts[n.ChatID] = append(c.texts[n.ChatID], n.Text)
	return nil
}

func (c *chatRecorder) got(chat string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.texts[chat])
}

// wait waits until the chat has accepted count notifications, and checks their order.
func (c *chatRecorder) wait(chat string, count int) {
	c.t.Helper()
	bustest.WaitUntil(c.t, "notifications of "+chat, func() bool { return len(c.got(chat)) >= count })
	if got := c.got(chat); !slices.Equal(got, numbers(count)) {
		c.t.Errorf("chat %q got %v", chat, got)
	}
}

func numbers(count int) (texts []string) {
	for i := range count {
		texts = append(texts, strconv.Itoa(i))
	}
	return texts
}

func publishTo(t *testing.T, b *bus.Bus, chat string, i int) {
	t.Helper()
	publish(t, b, b.Notify("chat", chat), fmt.Sprintf(`{"chat_id":%q,"text":"%d"}`, chat, i))
}

// Two notifiers share a channel. Each chat gets its notifications in order and one at a
// time, although attempts fail, and several chats get theirs at once.
func TestOrderPerChatOverTwoNotifiers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{})
		const chats, count = 8, 40
		receiver := newChatRecorder(t, func(channel.Notification) error {
			if rand.IntN(10) == 0 {
				return consume.RetryAfter(time.Millisecond, errors.New("not now"))
			}
			return nil
		})
		cfg := Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"}
		stop := start(t, b, cfg)
		start(t, bustest.Connect(t, s, bus.Config{}), cfg)
		for i := range count {
			for chat := range chats {
				publishTo(t, b, fmt.Sprint("c", chat), i)
			}
			// The notifiers also deliver the notifications of other channels.
			publish(t, b, b.NotifyAny("other"), `{"text":"x"}`)
			if i == count/2 {
				stop()
				start(t, bustest.Connect(t, s, bus.Config{}), cfg)
			}
		}
		for chat := range chats {
			receiver.wait(fmt.Sprint("c", chat), count)
		}
		if receiver.most < 2 {
			t.Error("only one chat was served at a time")
		}
	})
}

// A chat whose receiver asks for a pause delays no other chat, even if more of its
// notifications wait than two notifiers hold. Only its first notification is attempted.
func TestPausedChatDelaysNoOther(t *testing.T) {
	slow.Test(t)
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{})
		var open bool
		receiver := newChatRecorder(t, nil)
		receiver.refuse = func(n channel.Notification) error {
			if n.ChatID == "paused" && !open {
				if n.Text != "0" {
					t.Errorf("notification %s was attempted before the first one was accepted", n.Text)
				}
				return consume.RetryAfter(2*time.Second, errors.New("too many requests"))
			}
			return nil
		}
		const paused = 3*channel.Slots + 10
		for i := range paused {
			publishTo(t, b, "paused", i)
		}
		cfg := Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"}
		start(t, b, cfg)
		start(t, bustest.Connect(t, s, bus.Config{}), cfg)
		for i := range 20 {
			publishTo(t, b, "other", i)
			receiver.wait("other", i+1)
		}
		receiver.mu.Lock()
		if got := receiver.texts["paused"]; len(got) > 0 {
			t.Errorf("the paused chat got %v", got)
		}
		receiver.attempts["paused"], open = 0, true
		receiver.mu.Unlock()
		receiver.wait("paused", paused)
		receiver.mu.Lock()
		defer receiver.mu.Unlock()
		if n := receiver.attempts["paused"]; n != paused {
			t.Errorf("%d attempts for %d notifications", n, paused)
		}
	})
}

// A chat whose receiver is slow delays no other, even if more of its notifications wait
// than a notifier holds.
func TestSlowChatDelaysNoOther(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		receiver := newChatRecorder(t, nil)
		answer := make(chan struct{})
		slow := channelFunc(func(ctx context.Context, n channel.Notification) error {
			if n.ChatID == "slow" {
				<-answer
			}
			return receiver.Send(ctx, n)
		})
		const count = channel.Slots + 10
		for i := range count {
			publishTo(t, b, "slow", i)
		}
		publishTo(t, b, "other", 0)
		start(t, b, Config{Channels: map[string]channel.Channel{"chat": slow}, Default: "chat"})
		receiver.wait("other", 1)
		close(answer)
		receiver.wait("slow", count)
	})
}

type channelFunc func(ctx context.Context, n channel.Notification) error

func (f channelFunc) Send(ctx context.Context, n channel.Notification) error { return f(ctx, n) }

// Another notifier holds the first notifications of several chats, and then dies. The
// notifier delivers those of another chat meanwhile, and those of the chats in order. More
// of them wait than a notifier holds.
func TestDeadNotifierHoldsOnlyItsChats(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{Lease: 3 * time.Second})
		receiver := newChatRecorder(t, nil)
		n, err := New(b, Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		const count, chats = maxLine + 10, channel.Slots/maxLine + 1
		for i := range count {
			for chat := range chats {
				publishTo(t, b, fmt.Sprint("c", chat), i)
			}
		}
		publishTo(t, b, "other", 0)
		cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Outbox), "notify-chat")
		if err != nil {
			t.Fatal(err)
		}
		batch, err := cons.Fetch(chats)
		if err != nil {
			t.Fatal(err)
		}
		var held []jetstream.Msg
		for msg := range batch.Messages() {
			held = append(held, msg)
		}
		alive, die := context.WithCancel(t.Context())
		extended := make(chan struct{})
		go func() {
			defer close(extended)
			for alive.Err() == nil {
				for _, msg := range held {
					_ = msg.InProgress() // the next one follows soon
				}
				time.Sleep(50 * time.Millisecond)
			}
		}()
		bustest.Run(t, n.Run)
		receiver.wait("other", 1)
		for chat := range chats {
			if got := receiver.got(fmt.Sprint("c", chat)); len(got) > 0 {
				t.Errorf("the other notifier holds the first one of c%d, but it got %v", chat, got)
			}
		}
		die()
		<-extended
		for chat := range chats {
			receiver.wait(fmt.Sprint("c", chat), count)
		}
	})
}

// twoOfChat publishes two notifications of a chat, and returns its subject and the turn of the first one.
func twoOfChat(t *testing.T) (b *bus.Bus, o *order, subject string, first *turn) {
	t.Helper()
	b = bustest.New(t)
	o, subject = newOrder(b, "chat"), b.Notify("chat", "a")
	publishTo(t, b, "a", 0)
	publishTo(t, b, "a", 1)
	first, err := o.wait(t.Context(), nil, subject, 1, time.Time{})
	if first == nil || err != nil {
		t.Fatal(first, err)
	}
	return b, o, subject, first
}

// A notification whose lease ends while this notifier sends it is not sent again.
func TestLeaseEndsDuringSend(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		_, o, subject, first := twoOfChat(t)
		again := make(chan error, 1)
		go func() {
			second, err := o.wait(t.Context(), nil, subject, 1, time.Time{})
			if second != nil {
				err = errors.New("it got a second turn")
			}
			again <- err
		}()
		synctest.Wait()
		select {
		case err := <-again:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		if err := first.end(nil); err != nil {
			t.Error(err)
		}
		if err := <-again; err != nil {
			t.Error(err)
		}
		if len(o.chats) != 0 {
			t.Errorf("%d chats are not forgotten", len(o.chats))
		}
	})
}

// If the one before it took longer than the lease, another process may have sent this one, so the server is asked again.
func TestLeaseEndsBeforeTheTurn(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b, o, subject, first := twoOfChat(t)
		next := make(chan *turn, 1)
		go func() {
			second, err := o.wait(t.Context(), nil, subject, 2, time.Time{})
			if err != nil {
				t.Error(err)
			}
			next <- second
		}()
		time.Sleep(o.consumer.Lease)
		for sequence := range uint64(2) { // by another process
			if err := b.Delete(t.Context(), bus.Outbox, sequence+1); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.end(nil); err != nil {
			t.Error(err)
		}
		if second := <-next; second != nil {
			t.Error("it is sent again")
		}
	})
}

// A rejected notification has its place until its dead letter is stored, and a failed one until
// it is sent. A chat that fails is forgotten when its pause is over and many others came.
func TestOrderAfterFailures(t *testing.T) {
	b := bustest.New(t)
	o := newOrder(b, "chat")
	stream, err := b.Stream(t.Context(), bus.Outbox)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		publishTo(t, b, "a", i)
	}
	subject, closed := b.Notify("chat", "a"), make(chan struct{})
	close(closed) // what must wait is returned
	attempt := func(sequence uint64, want bool) *turn {
		t.Helper()
		turn, err := o.wait(t.Context(), closed, subject, sequence, time.Time{})
		if (turn != nil) != want || !want && err == nil {
			t.Fatalf("%d: %v, %v", sequence, turn, err)
		}
		return turn
	}
	if err := attempt(1, true).end(consume.Reject("forbidden", errors.New("blocked"))); err == nil {
		t.Error("no verdict")
	}
	attempt(2, false)
	if err := stream.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if delay, ok := consume.Postponed(attempt(2, true).end(errors.New("down"))); !ok || delay <= 0 {
		t.Errorf("postponed for %s", delay)
	}
	o.chats[subject].until = time.Now().Add(time.Hour)
	attempt(2, false)
	_, err = o.wait(t.Context(), closed, subject, 3, time.Time{})
	if delay, _ := consume.Postponed(err); delay < time.Minute {
		t.Errorf("the chat is down for an hour, and its next one comes after %s: %v", delay, err)
	}
	o.chats[subject].until, o.limit = time.Now(), 1
	if turn, err := o.wait(t.Context(), closed, b.Notify("chat", "b"), 4, time.Time{}); turn != nil || err != nil {
		t.Errorf("one that is not stored: %v, %v", turn, err)
	}
	if len(o.chats) != 0 {
		t.Errorf("%d chats are not forgotten", len(o.chats))
	}
}

// A chat that waits for another process goes on when that process has sent what it had,
// also before the time is over for which the chat waits.
func TestChatGoesOnWhenAnotherProcessHasSent(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		o := newOrder(b, "chat")
		stream, err := b.Stream(t.Context(), bus.Outbox)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			publishTo(t, b, "a", i)
		}
		subject, never := b.Notify("chat", "a"), make(chan struct{})
		turn, err := o.wait(t.Context(), never, subject, 3, time.Time{})
		if delay, _ := consume.Postponed(err); turn != nil || delay <= 0 || delay > 2*maxPoll {
			t.Fatalf("%v, %v while another process has two others", turn, err)
		}
		for sequence := range uint64(2) { // it sends both
			if err := stream.DeleteMsg(t.Context(), sequence+1); err != nil {
				t.Fatal(err)
			}
		}
		if turn, err = o.wait(t.Context(), never, subject, 3, time.Time{}); turn == nil {
			t.Fatalf("the first one waits: %v", err)
		}
		if failures := o.chats[subject].failures; failures != 0 {
			t.Errorf("the chat works and has %d failures", failures)
		}
	})
}

// A chat waited for another process when the outbox was lost with its disk. The new one begins at 1 again, and its
// first notifications are sent.
func TestChatThatWaitedForAnotherProcessInANewOutbox(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b, o, subject, first := twoOfChat(t)
		publishTo(t, b, "a", 2)
		stream, err := b.Stream(t.Context(), bus.Outbox)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() {
			_, err := o.wait(t.Context(), nil, subject, 3, time.Time{}) // another process has 2
			waited <- err
		}()
		time.Sleep(maxPoll / 2)
		if err := first.end(nil); err != nil {
			t.Error(err)
		}
		if err := stream.DeleteMsg(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, ok := consume.Postponed(<-waited); !ok {
			t.Error("it does not wait")
		}
		config := stream.CachedInfo().Config
		if err := b.JetStream().DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream().CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		publishTo(t, b, "a", 0)
		time.Sleep(maxPoll)
		if turn, err := o.wait(t.Context(), nil, subject, 1, time.Time{}); turn == nil {
			t.Errorf("the notification of the new outbox counts as sent: %v", err)
		}
	})
}

// The outbox is lost with its disk while this notifier sends the second notification of a chat. The new one begins at 1 again,
// and what it stores for the chat is sent.
func TestChatInANewOutbox(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		sending, hangs := make(chan string), make(chan struct{})
		receiver := channelFunc(func(_ context.Context, n channel.Notification) error {
			if sending <- n.Text; n.Text == "1" {
				<-hangs
			}
			return nil
		})
		start(t, b, Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"})
		publishTo(t, b, "a", 0)
		publishTo(t, b, "a", 1)
		time.Sleep(time.Second) // both are in this process
		for range 2 {
			<-sending
		}
		stream, err := b.Stream(t.Context(), bus.Outbox)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		if err := b.JetStream().DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream().CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		defer close(hangs)
		publishTo(t, b, "a", 2)
		select {
		case <-sending:
		case <-time.After(time.Minute):
			t.Error("the notification of the new outbox counts as sent")
		}
	})
}

// A notification on the subject of its channel goes to the subject of its chat, also one that an
// earlier version stored. It keeps its id and its place.
func TestNotificationWithoutItsChatsSubject(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for i := range 3 {
		for _, chat := range []string{"a", "", "-100 group"} {
			publish(t, b, b.NotifyAny("chat"), fmt.Sprintf(`{"id":"id%d","chat_id":%q,"text":"%d"}`, i, chat, i))
		}
	}
	receiver := newChatRecorder(t, func(n channel.Notification) error {
		if n.ID != "id"+n.Text {
			t.Errorf("got %+v", n)
		}
		return nil
	})
	start(t, b, Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"})
	for _, chat := range []string{"a", "", "-100 group"} {
		receiver.wait(chat, 3)
	}
}

// The subject of a chat decides the chat.
func TestSubjectNamesTheChat(t *testing.T) {
	t.Parallel()
	b, r := bustest.New(t), newRecorder()
	letters := bustest.Subscribe(t, b, "stevedore.dead.>")
	start(t, b, Config{Default: "notes", Channels: map[string]channel.Channel{"notes": r}})
	hashed := tools.Token("no token")
	for _, test := range []struct{ subject, body, chat string }{
		{b.Notify("notes", "a"), `{"text":"x"}`, "a"},
		{b.Notify("notes", "a"), `{"text":"x","chat_id":"a"}`, "a"},
		{b.Notify("notes", hashed), `{"text":"x","chat_id":"no token"}`, "no token"},
		{b.Notify("notes", ""), `{"text":"x"}`, ""},
	} {
		publish(t, b, test.subject, test.body)
		if n := r.next(t); n.ChatID != test.chat {
			t.Errorf("%s %s: got the chat %q", test.subject, test.body, n.ChatID)
		}
	}
	for _, test := range [][2]string{
		{b.Notify("notes", "a"), `{"text":"x","chat_id":"b"}`},
		{b.Notify("notes", ""), `{"text":"x","chat_id":"b"}`},
		{b.Notify("notes", hashed), `{"text":"x"}`},
		{b.Notify("notes", "*"), `{"text":"x"}`},
	} {
		if _, err := b.JetStream().Publish(t.Context(), test[0], []byte(test[1])); err != nil {
			t.Fatal(err)
		}
		if letter, msg := bustest.Next[dead.Letter](t, letters); letter.Code != consume.CodeUndecodable || msg.Subject != "stevedore.dead.notification.notes" {
			t.Errorf("%s: dead letter %+v on %s", test, letter, msg.Subject)
		}
	}
}

// An earlier version created the consumer for one notification at a time.
func TestConsumerOfAnEarlierVersionIsUpdated(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	old := consumerOf(b, "chat")
	old.MaxAckPending, old.AckWait, old.MaxDeliver = 1, 30*time.Second, -1
	old.FilterSubjects = []string{b.NotifyAny("chat")}
	if _, err := b.JetStream().CreateConsumer(t.Context(), b.StreamName(bus.Outbox), old); err != nil {
		t.Fatal(err)
	}
	receiver := newChatRecorder(t, func(n channel.Notification) error {
		if n.ChatID == "paused" {
			return consume.RetryAfter(time.Hour, errors.New("too many requests"))
		}
		return nil
	})
	publishTo(t, b, "paused", 0)
	publishTo(t, b, "other", 0)
	start(t, b, Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"})
	receiver.wait("other", 1)
	info, _, err := b.ConsumerInfo(t.Context(), b.ChannelConsumer("chat"))
	if err != nil || info.Config.MaxAckPending <= 1 || info.Config.AckWait >= 30*time.Second {
		t.Errorf("consumer %+v, %v", info, err)
	}
}

// A cluster can keep a notification in the outbox although it is acknowledged. It does not hold up
// those of its chat that follow.
func TestSettledNotificationThatIsStillStored(t *testing.T) {
	t.Parallel()
	b, r := bustest.New(t), newRecorder()
	stream, err := b.Stream(t.Context(), bus.Outbox)
	if err != nil {
		t.Fatal(err)
	}
	keeping := stream.CachedInfo().Config
	keeping.Retention = jetstream.LimitsPolicy
	if err := b.JetStream().DeleteStream(t.Context(), keeping.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().CreateStream(t.Context(), keeping); err != nil {
		t.Fatal(err)
	}
	consumer, err := b.Consumer(t.Context(), b.ChannelConsumer("notes"))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.Notify("notes", "c"), `{"id":"a","chat_id":"c","text":"settled"}`)
	m, err := consumer.Next()
	if err == nil {
		err = m.DoubleAck(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.Notify("notes", "c"), `{"id":"b","chat_id":"c","text":"next"}`)
	start(t, b, Config{Default: "notes", Channels: map[string]channel.Channel{"notes": r}})
	if n := r.next(t); n.Text != "next" {
		t.Errorf("got %q", n.Text)
	}
}

// Somebody limits how often the server delivers the notifications of a channel, and takes that back. A notification that
// reached the limit stays before those of its chat, and the next start of a notifier sends it.
func TestLimitOfDeliveriesOfAChannel(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		down := true
		receiver := newChatRecorder(t, nil)
		receiver.refuse = func(n channel.Notification) error {
			if down && n.ChatID == "a" {
				return consume.RetryAfter(time.Second, errors.New("down"))
			}
			return nil
		}
		cfg := Config{Channels: map[string]channel.Channel{"chat": receiver}, Default: "chat"}
		stop := start(t, b, cfg)
		bustest.WaitUntil(t, "the consumer", func() bool {
			_, ok, err := b.ConsumerInfo(t.Context(), b.ChannelConsumer("chat"))
			return ok && err == nil
		})
		update := func(limit int) {
			t.Helper()
			info, _, err := b.ConsumerInfo(t.Context(), b.ChannelConsumer("chat"))
			if err == nil {
				info.Config.MaxDeliver = limit
				_, err = b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Outbox), info.Config)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		update(1)
		publishTo(t, b, "a", 0)
		time.Sleep(10 * time.Second)
		publishTo(t, b, "b", 0)
		receiver.wait("b", 1)
		time.Sleep(10 * time.Second)
		down = false
		publishTo(t, b, "a", 1)
		time.Sleep(10 * time.Second)
		update(-1)
		time.Sleep(10 * time.Second)
		stop()
		start(t, b, cfg)
		receiver.wait("a", 2)
	})
}

// A full outbox of notifications that an earlier version stored has no room for their copies on the
// subjects of their chats; it empties all the same.
func TestFullOutboxWithoutSubjectsOfChats(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{StreamBytes: map[string]int64{"outbox": 64 << 10}, Log: bustest.Log(t)})
	body, count := `{"chat_id":"5","text":"`+strings.Repeat("x", 6_000)+`"}`, 0
	for ; ; count++ {
		_, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("console"), Body: []byte(body)})
		if errors.Is(err, bus.ErrFull) {
			break
		}
		if err != nil || count > 100 {
			t.Fatal(count, err)
		}
	}
	console := newRecorder()
	start(t, b, Config{Channels: map[string]channel.Channel{"console": console}})
	for range count {
		console.next(t)
	}
	bustest.WaitUntil(t, "the end of the outbox", func() bool { return bustest.Messages(t, b, bus.Outbox) == 0 })
}

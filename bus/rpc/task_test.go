package rpc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// A list has the running and then the queued calls of a session, from all queues.
func TestListShowsWhatWaits(t *testing.T) {
	p := start(t)
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("default", "block"), Body: []byte(`{"id":"runs","session":"s"}`)})
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("default", "background"), Body: []byte(`{"id":"job","session":"s"}`)})
	<-p.blocked
	<-p.blocked
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("later", "block"), Body: []byte(`{"id":"waits.1","session":"s"}`)})
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("later", "block"), Body: []byte(`{"id":"waits","session":"other"}`)})
	publish(t, p.bus, bus.Message{Subject: p.bus.Call("later", "block"), Body: []byte(`{"session":"s"}`), Key: "waits-2"})

	list, err := rpc.ListTasks(t.Context(), p.bus, "s")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range list.Tasks {
		if (task.State == rpc.Queued) != task.StartedAt.IsZero() || task.StartedAt.IsZero() == task.QueuedAt.IsZero() {
			t.Errorf("task %+v", task)
		}
		got = append(got, string(task.State)+" "+task.ID+" "+task.Tool)
	}
	want := []string{"running runs block", "running job background", "queued " + tools.Token("waits.1") + " block", "queued waits-2 block"}
	if got[0] == want[1] { // they started in any order
		got[0], got[1] = got[1], got[0]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || list.Omitted != 0 || list.Incomplete {
		t.Errorf("listed %q, want %q", got, want)
	}
	if text := list.Text(); !strings.Contains(text, "waits-2  queued  block  waits for ") {
		t.Errorf("text %s", text)
	}
}

// slowWorker simulates a worker that answers when the test calls the function that
// it sends to asked.
func slowWorker(t *testing.T, b *bus.Bus, session string, answer []byte, asked chan<- func()) {
	t.Helper()
	sub, err := b.Conn().Subscribe(b.RPC("running", session), func(msg *nats.Msg) {
		asked <- func() {
			if err := msg.Respond(answer); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

// The list waits for a slow worker, because its call was delivered and no other
// worker has reported it.
func TestListWaitsForASlowWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		p := start(t)
		publish(t, p.bus, bus.Message{Subject: p.bus.Call("default", "block"), Body: []byte(`{"id":"quick","session":"s"}`)})
		<-p.blocked
		// The call of the slow worker was delivered.
		publish(t, p.bus, bus.Message{Subject: p.bus.Call("slow", "x"), Body: []byte(`{"id":"slow","session":"s"}`)})
		c := p.bus.WorkerConsumer("slow")
		consumer, err := p.bus.JetStream().CreateConsumer(t.Context(), p.bus.StreamName(c.Stream), consumerConfig(c))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := consumer.Next(); err != nil {
			t.Fatal(err)
		}
		asked := make(chan func(), 1)
		slowWorker(t, p.bus, "s", []byte(`[{"id":"slow","tool":"x","worker":"w","started_at":"1999-01-01T00:00:00Z"}]`), asked)
		go func() {
			respond := <-asked
			<-time.After(300 * time.Millisecond) // longer than the list waits for unexpected workers
			respond()
		}()
		list, err := rpc.ListTasks(t.Context(), p.bus, "s")
		if err != nil || len(list.Tasks) != 2 || list.Tasks[0].ID != "slow" || list.Tasks[0].State != rpc.Running || list.Tasks[1].State != rpc.Running {
			t.Errorf("listed %s, %v", list.Text(), err)
		}
	})
}

// A long list omits the calls that ended first, and contains their number.
func TestLongListOmitsTheOldest(t *testing.T) {
	b := bustest.New(t)
	for i := range 600 {
		for _, end := range []struct{ kind, outcome string }{{"result", "async"}, {"completion", "completed"}} {
			if i >= 590 && end.kind == "completion" {
				continue
			}
			publish(t, b, bus.Message{Subject: fmt.Sprintf("stevedore.%s.s.t%d", end.kind, i), Body: fmt.Appendf(nil,
				`{"id":"t%d","session":"s","tool":"x","outcome":%q,"started_at":%q}`, i, end.outcome, time.Unix(int64(i), 0).UTC().Format(time.RFC3339))})
		}
	}
	list, err := rpc.ListTasks(t.Context(), b, "s")
	if err != nil || len(list.Tasks) != 500 || list.Omitted != 100 {
		t.Fatalf("%d tasks, %d omitted, %v", len(list.Tasks), list.Omitted, err)
	}
	if first, last := list.Tasks[0], list.Tasks[499]; first.ID != "t100" || last.ID != "t599" || last.State != rpc.Queued {
		t.Errorf("from %+v to %+v", first, last)
	}
	if text := list.Text(); !strings.Contains(text, "and 100 more") {
		t.Errorf("text ends in %s", text[len(text)-200:])
	}
}

func consumerConfig(c bus.Consumer) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: c.Name, FilterSubjects: c.Filter, AckPolicy: jetstream.AckExplicitPolicy}
}

// A call whose worker died is queued again, and the list has the reason.
func TestListOfADeadWorker(t *testing.T) {
	b := bustest.New(t)
	publish(t, b, bus.Message{Subject: b.Call("gone", "x"), Body: []byte(`{"id":"left","session":"s"}`)})
	c := b.WorkerConsumer("gone")
	consumer, err := b.JetStream().CreateConsumer(t.Context(), b.StreamName(c.Stream), consumerConfig(c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(); err != nil {
		t.Fatal(err)
	}
	list, err := rpc.ListTasks(t.Context(), b, "s")
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].State != rpc.Queued || !strings.Contains(list.Text(), "no worker is running it now") {
		t.Errorf("listed %s, %v", list.Text(), err)
	}
	if task, err := rpc.GetTask(t.Context(), b, "s", "left"); err != nil || task.State != rpc.Queued || !strings.Contains(task.Text(), "no worker is running it now") {
		t.Errorf("got %s, %v", task.Text(), err)
	}
}

package jsapi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// A mirror answers direct gets for its stream, as a replica does. One that lacks the
// message says that there is none, so GetMessage asks the leader.
func TestReplicaKnowsNothing(t *testing.T) {
	js := bustest.Dial(t, bustest.Server(t), bus.Config{}).JetStream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true, MaxMsgsPerSubject: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", []byte("found")); err != nil {
		t.Fatal(err)
	}
	bustest.Lag(t, js, "S", "s.a")
	api := jsapi.New(js)
	for i := range 100 {
		for name, get := range map[string]jsapi.Get{"last": {LastBySubject: "s.a"}, "next": {NextBySubject: "s.*", Sequence: 1}, "sequence": {Sequence: 1}} {
			if m, err := api.GetMessage(t.Context(), "S", get); err != nil || string(m.Data) != "found" {
				t.Fatalf("read %d by %s: %q, %v", i, name, m.Data, fmt.Sprint(err))
			}
		}
		for _, batch := range []int{0, 1} {
			n := 0
			for m, err := range api.AllMessages(t.Context(), "S", jsapi.Get{NextBySubject: "s.*", Batch: batch}) {
				if n++; err != nil || string(m.Data) != "found" {
					t.Fatalf("read %d of all: %q, %v", i, m.Data, err)
				}
			}
			if n != 1 {
				t.Fatalf("read %d of all has %d messages", i, n)
			}
		}
	}
}

// A read of a replica that lags ends although somebody publishes a message for each one that it reads.
func TestReadEndsWhileOthersPublish(t *testing.T) {
	const published = 50
	js := bustest.Dial(t, bustest.Server(t), bus.Config{}).JetStream()
	api, ended := jsapi.New(js), false
	for i := 0; i < 20 && !ended; i++ { // half of them are read from the replica that lags
		stream, subject := fmt.Sprint("S", i), fmt.Sprint("s.", i)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, AllowDirect: true}); err != nil {
			t.Fatal(err)
		}
		publish := func() {
			if _, err := js.Publish(t.Context(), subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		publish()
		bustest.Lag(t, js, stream, subject)
		n := 0
		for _, err := range api.AllMessages(t.Context(), stream, jsapi.Get{NextBySubject: subject}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n <= published {
				publish()
			}
		}
		ended = n <= published
	}
	if !ended {
		t.Error("each read went on until nobody published any more")
	}
}

// The replicas of a new stream answer direct gets a moment later than its leader knows it. A stream that
// allows none is in that state for good.
func TestNoReplicaAnswers(t *testing.T) {
	js := bustest.Dial(t, bustest.Server(t), bus.Config{}).JetStream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", []byte("found")); err != nil {
		t.Fatal(err)
	}
	api := jsapi.New(js)
	for name, get := range map[string]jsapi.Get{"last": {LastBySubject: "s.a"}, "next": {NextBySubject: "s.*", Sequence: 1}, "sequence": {Sequence: 1}} {
		if m, err := api.GetMessage(t.Context(), "S", get); err != nil || string(m.Data) != "found" {
			t.Errorf("read by %s: %q, %v", name, m.Data, err)
		}
	}
	if _, err := api.GetMessage(t.Context(), "S", jsapi.Get{LastBySubject: "s.b"}); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("no message: %v", err)
	}
}

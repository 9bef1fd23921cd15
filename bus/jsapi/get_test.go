package jsapi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

func TestGet(t *testing.T) {
	b := bustest.New(t)
	stream, api := b.StreamName(bus.Calls), jsapi.New(b.JetStream())
	const count = 20
	subject := b.Call("default", "x", "s", fmt.Sprint("c", count))
	for i := range count {
		header := nats.Header{"Nats-Subject": {"spoofed"}, "Nats-Sequence": {"1"}, "Nats-Stream": {""}, "Status": {"404"}}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "x", "s", fmt.Sprint("c", i+1)), Body: fmt.Append(nil, i), Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	for name, get := range map[string]func(jsapi.Get) (jsapi.Message, error){
		"any replica": func(get jsapi.Get) (jsapi.Message, error) { return api.GetMessage(t.Context(), stream, get) },
		"leader":      func(get jsapi.Get) (jsapi.Message, error) { return api.GetFromLeader(t.Context(), stream, get) },
	} {
		for i, request := range []jsapi.Get{{Sequence: count}, {LastBySubject: subject}, {Sequence: count, NextBySubject: b.Call("*", "*", "*", "*")}} {
			m, err := get(request)
			if err != nil || m.Subject != subject || m.Sequence != count || m.Time.IsZero() || string(m.Data) != fmt.Sprint(count-1) || m.Header.Get("Status") != "404" {
				t.Errorf("%s, request %d: %+v, %v", name, i, m, err)
			}
		}
		if _, err := get(jsapi.Get{Sequence: count + 1}); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("%s: no message: %v", name, err)
		}
	}
	for _, batch := range []int{0, 1, 7, count, count + 1} {
		seen := 0
		for m, err := range api.Messages(t.Context(), stream, jsapi.Get{NextBySubject: b.Call("*", "*", "*", "*"), Batch: batch}) {
			if seen++; err != nil || m.Sequence != uint64(seen) {
				t.Fatalf("batches of %d: message %d is %d, %v", batch, seen, m.Sequence, err)
			}
		}
		if seen != count {
			t.Errorf("batches of %d: %d messages", batch, seen)
		}
	}
	for _, err := range api.Messages(t.Context(), "nosuch", jsapi.Get{NextBySubject: subject}) {
		if !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("no stream: %v", err)
		}
	}
}

// A message that is gone counts as deleted.
func TestDeleteMessage(t *testing.T) {
	b := bustest.New(t)
	api := jsapi.New(b.JetStream())
	ack, err := b.JetStream().Publish(t.Context(), b.Result("s", "c"), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := api.DeleteMessage(t.Context(), ack.Stream, ack.Sequence); err != nil {
			t.Error(err)
		}
	}
	if n := bustest.Messages(t, b, bus.Results); n != 0 {
		t.Errorf("%d messages", n)
	}
	if err := api.DeleteMessage(t.Context(), "no-such-stream", 1); err == nil {
		t.Error("a stream that does not exist")
	}
}

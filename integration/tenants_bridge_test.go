package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The login of a bridge takes the notifications of its channel with a stock client, hands in
// messages of its channel, and can do nothing else.
func TestBridgeLogin(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := startTenants(t, "--channel", "team=bridge:chat=C1", "--channel", "other=bridge:chat=C1", "--channel", "log=file:"+t.TempDir()+"/log", "--default-channel", "log", "--receive", "team,other",
		"--model", "script:"+writeScript(t, `{"text":"An answer."}`))
	operator, bridge := s.connect("red-operator"), s.connect("red-bridge-team")

	// What users write goes in, and the answer comes out of the outbox.
	reply, err := bridge.nc.Request("stevedore.rpc.message.team", []byte(`{"id":"m1","chat_id":"C1","text":"hi"}`), testTimeout)
	if err != nil || !strings.Contains(string(reply.Data), `"message-m1"`) {
		t.Fatalf("%v, %v", reply, err)
	}
	js, err := jetstream.New(bridge.nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), "STEVEDORE_OUTBOX", "notify-team")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(testTimeout))
	if err != nil || msg.Subject() != "stevedore.notify.team.C1" || !strings.Contains(string(msg.Data()), "An answer.") {
		t.Fatalf("%v, %v", msg, err)
	}
	if err := msg.InProgress(); err != nil {
		t.Fatal(err)
	}
	if err := msg.Ack(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testTimeout); operator.stored("STEVEDORE_OUTBOX")["stevedore.notify.team.C1"] > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the acknowledgement has no effect")
		}
	}
	drafts, err := bridge.nc.SubscribeSync("stevedore.draft.team")
	if err != nil {
		t.Fatal(err)
	}
	if err := bridge.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := operator.nc.Publish("stevedore.draft.team", []byte(`{"text":"so far"}`)); err != nil {
		t.Fatal(err)
	}
	if m, err := drafts.NextMsg(testTimeout); err != nil || !json.Valid(m.Data) {
		t.Errorf("draft %v, %v", m, err)
	}

	for _, subject := range []string{
		"stevedore.rpc.message.other", "stevedore.rpc.call.default.list_dir", "stevedore.notify.team.C1", "stevedore.call.default.list_dir.s.c", "stevedore.draft.team",
		"$JS.API.CONSUMER.MSG.NEXT.STEVEDORE_OUTBOX.notify-other", "$JS.API.CONSUMER.MSG.NEXT.STEVEDORE_CALLS.worker-default",
		"$JS.API.CONSUMER.CREATE.STEVEDORE_OUTBOX.mine", "$JS.API.STREAM.MSG.GET.STEVEDORE_OUTBOX", "$JS.API.STREAM.PURGE.STEVEDORE_OUTBOX",
		"$JS.ACK.STEVEDORE_OUTBOX.notify-other.1.1.1.1.1", "$JS.ACK.STEVEDORE_CALLS.worker-default.1.1.1.1.1",
	} {
		if !bridge.refused(&nats.Msg{Subject: subject, Data: []byte("{}")}) {
			t.Errorf("the bridge may publish %s", subject)
		}
	}
	if blue := s.connect("blue-session-s1"); !blue.refused(&nats.Msg{Subject: "stevedore.rpc.message.team", Data: []byte(`{}`)}) {
		t.Error("another client may hand in messages")
	}
}

func writeScript(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.jsonl")
	if err := os.WriteFile(path, []byte(lines+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

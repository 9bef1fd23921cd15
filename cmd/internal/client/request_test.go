package client

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// A command of a newer version says that the workers are older, and does not wait.
func TestAskOlderWorkers(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ask := func() error {
		_, err := Ask(t.Context(), new(Options), b, rpc.GetTask, rpc.TaskRequest{ID: "x"})
		return err
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "no worker answers") {
		t.Errorf("without a worker: %v", err)
	}
	answer := func(subject string, msg *nats.Msg) {
		t.Helper()
		sub, err := b.Conn().Subscribe(subject, func(m *nats.Msg) { _ = m.RespondMsg(&nats.Msg{Data: msg.Data, Header: msg.Header}) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
	}
	answer(b.RPC("tools", "*"), &nats.Msg{Data: []byte(`{"tools":[]}`)}) // a worker without the group of operations
	if err := ask(); err == nil || !strings.Contains(err.Error(), "the workers are older than this program") {
		t.Errorf("a worker without the endpoint: %v", err)
	}
	answer(b.RPC("task", "*", "*"), &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {rpc.CodeUnknown}, micro.ErrorHeader: {"unknown function \"get\""}}})
	if err := ask(); err == nil || !strings.Contains(err.Error(), "the workers are older than this program") {
		t.Errorf("a worker without the function: %v", err)
	}
}

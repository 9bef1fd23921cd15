package client

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// A command of a newer version says that the workers are older, and does not wait.
func TestAskOlderWorkers(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ask := func() error {
		_, err := Ask(t.Context(), new(Options), b, rpc.ArtifactRecord, rpc.ArtifactRequest{ArtifactID: "x"})
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
	answer(b.RPC("artifact", "*", "*"), &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {rpc.CodeUnknown}, micro.ErrorHeader: {"unknown function \"record\""}}})
	if err := ask(); err == nil || !strings.Contains(err.Error(), "the workers are older than this program") {
		t.Errorf("a worker without the function: %v", err)
	}
}

// An operation that needs no worker runs without one, and with workers that do not know it.
func TestAskAlone(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	o := &Options{Session: "s"}
	ask := func() {
		t.Helper()
		if list, err := Ask(t.Context(), o, b, rpc.ListTasks, rpc.TaskRequest{}); err != nil || !strings.Contains(string(list.Body), `"text":"No call is queued`) {
			t.Errorf("list: %s, %v", list.Body, err)
		}
		if _, err := Ask(t.Context(), o, b, rpc.CancelTask, rpc.TaskRequest{ID: "x"}); tools.CodeOf(err) != tools.CodeNotFound {
			t.Errorf("cancel: %v", err)
		}
	}
	ask()
	sub, err := b.Conn().Subscribe(b.RPC("task", "*", "*"), func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {rpc.CodeUnknown}, micro.ErrorHeader: {"unknown function"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ask()
}

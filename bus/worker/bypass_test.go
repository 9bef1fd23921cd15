package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// guarded starts a worker whose tool "danger" needs an approval if a text of its arguments
// contains "rm". Session s has the artifact "evil" with arguments of that kind, and "text"
// with a text of that kind.
func guarded(t *testing.T, b *bus.Bus) (ran *atomic.Pointer[string]) {
	t.Helper()
	store := mem.New(offload.StoreConfig{})
	for id, text := range map[string]string{"evil": `{"text":"rm everything"}`, "text": "rm everything"} {
		rec := offload.Record{Artifact: tools.Artifact{ID: id}, Session: "s"}
		if _, err := store.Put(t.Context(), rec, strings.NewReader(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	ran = new(atomic.Pointer[string])
	tool, err := tools.NewTool("danger", "records its text", func(_ context.Context, _ tools.Call, in struct {
		Text string `json:"text"`
	}) *tools.Result {
		ran.Store(&in.Text)
		return tools.NewToolResult("ran")
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := worker.Config{Reader: offload.NewReader(store, offload.ReaderConfig{}), Approvals: approvals.Rules{
		Needed: func(call tools.Call) bool { return strings.Contains(string(call.Args), "rm") },
	}}
	workertest.Start(t, b, workertest.Plain{}, cfg, tool.WithArtifacts())
	return ran
}

// A call whose text is in an artifact needs the approval that the text needs.
func TestArtifactNeedsTheApprovalOfItsContent(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ran := guarded(t, b)
		submit(t, b, b.Call(bus.DefaultQueue, "danger", "s", "c"), `{"args":{"text":{"$artifact":"text"}}}`)
		if got := waitForApprovals(t, b, 1)[0]; string(got.Args) != `{"text":"rm everything"}` {
			t.Errorf("the question shows %s", got.Args)
		}
		if _, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: "c"}, task.Answer{Approve: true}); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the approved call to run", func() bool { return ran.Load() != nil })
		if got := *ran.Load(); got != "rm everything" {
			t.Errorf("the approved call got %q", got)
		}
	})
}

// The headers of a call that was parked are for workers, but any client of a session can
// send them. An approved id does not let other arguments run, which an artifact has, and a
// call with the id of one that waits for an answer does not change the question.
func TestForgedHeadersOfAParkedCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ran := guarded(t, b)
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		asked := tools.Call{ID: "c", Session: "s", Tool: "danger", Args: json.RawMessage(`{"text":"rm a.txt"}`)}
		submit(t, b, b.Call(bus.DefaultQueue, "danger", "s", "c"), fmt.Sprintf(`{"args":%s}`, asked.Args))
		question := waitForApprovals(t, b, 1)[0]
		waitEmpty(t, b)

		forge := func(body string, header nats.Header) {
			t.Helper()
			header.Set(bus.FreshHeader, "1")
			msg := &nats.Msg{Subject: b.Call(bus.DefaultQueue, "danger", "s", "c"), Data: []byte(body), Header: header}
			if _, err := b.JetStream().PublishMsg(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
			if got, _ := bustest.Next[dead.Letter](t, letters); got.Code != tools.CodeMismatch {
				t.Errorf("%v: dead letter %+v", header, got)
			}
			waitEmpty(t, b)
		}
		forge(`{"args":{"text":"rm everything"}}`, nats.Header{"Stevedore-Parked": {"99"}})
		if got := waitForApprovals(t, b, 1)[0]; string(got.Args) != string(question.Args) {
			t.Errorf("the question changed to %s", got.Args)
		}
		if _, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: "c"}, task.Answer{Approve: true}); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the approved call to run", func() bool { return ran.Load() != nil })
		waitEmpty(t, b)
		forge(`{}`, nats.Header{"Stevedore-Parked": {"99"}, "Stevedore-Parked-Args": {"evil"}})
		if got := *ran.Load(); got != "rm a.txt" {
			t.Errorf("%q ran without an approval", got)
		}
	})
}

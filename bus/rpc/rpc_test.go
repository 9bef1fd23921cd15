package rpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// start starts a worker with a tool that returns many lines, and the service.
func start(t *testing.T) *bus.Bus {
	t.Helper()
	b := bustest.New(t)
	big, err := tools.NewTool("big", "prints lines", func(context.Context, tools.Call, struct{}) *tools.Result {
		return tools.NewToolResult(strings.Repeat("one line of many\n", 10_000))
	})
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New(offload.StoreConfig{})
	serve(t, b, store)
	workertest.Start(t, b, offload.NewOffloader(store, offload.Config{}), worker.Config{}, big.WithEffect(tools.Idempotent))
	return b
}

// serve starts the service and returns when it is ready.
func serve(t *testing.T, b *bus.Bus, store offload.Store) {
	t.Helper()
	ready := make(chan struct{})
	bustest.Run(t, rpc.NewService(b, offload.NewReader(store, offload.ReaderConfig{}), rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)}).Run)
	<-ready
}

func memOffloader() worker.Offloader {
	return offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{})
}

func TestSubmitOffloadsAndReads(t *testing.T) {
	b := start(t)
	event, err := rpc.Submit(t.Context(), b, "default", tools.Call{ID: "b1", Session: "s", Tool: "big"})
	if err != nil || event.Artifact == nil || len(event.ForLLM) > 3000 {
		t.Fatalf("result %.300v, %v", event, err)
	}
	// The same call again gets the same result.
	again, err := rpc.Submit(t.Context(), b, "default", tools.Call{ID: "b1", Session: "s", Tool: "big"})
	if err != nil || !again.StartedAt.Equal(event.StartedAt) {
		t.Errorf("again %.300v, %v", again, err)
	}
	// Another call with this id is rejected.
	_, err = rpc.Submit(t.Context(), b, "default", tools.Call{ID: "b1", Session: "s", Tool: "big", Args: json.RawMessage(`{"x":1}`)})
	if tools.CodeOf(err) != tools.CodeMismatch {
		t.Errorf("mismatch: %v", err)
	}

	in := rpc.ReadRequest{ArtifactID: "b1", StartLine: 5000, EndLine: 5001}
	body, err := rpc.Request(t.Context(), b, "stevedore.rpc.artifact.s.lines", in)
	if err != nil {
		t.Fatal(err)
	}
	var lines struct {
		Text    string `json:"text"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(body, &lines); err != nil {
		t.Fatal(err)
	}
	want := "Lines 5000-5001 of 10000 (knowledge_id: b1):\n\none line of many\none line of many"
	if lines.Text != want || lines.Content != "one line of many\none line of many" {
		t.Errorf("lines %q", lines.Text)
	}

	// A list has the limit and the task of its request.
	if _, err := rpc.Submit(t.Context(), b, "default", tools.Call{ID: "b2", Session: "s", Tool: "big", TaskID: "t"}); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		`query {"limit":1}`: "[b2] of 2", `query {"limit":1,"offset":1}`: "[b1] of 2", `query {"filter":{"task_id":"t"}}`: "[b2] of 1", `info {"task_id":"t"}`: "[b2] of 1", `info {"limit":1}`: "[b2] of 2",
	} {
		operation, in, _ := strings.Cut(request, " ")
		body, err := rpc.Request(t.Context(), b, "stevedore.rpc.artifact.s."+operation, json.RawMessage(in))
		if err != nil {
			t.Fatal(err)
		}
		var list offload.Listing
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, a := range list.Artifacts {
			ids = append(ids, a.ID)
		}
		if got := fmt.Sprintf("%v of %d", ids, list.Count); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}

	// Another session cannot read it.
	_, err = rpc.Request(t.Context(), b, "stevedore.rpc.artifact.other.lines", in)
	if tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("other session: %v", err)
	}
}

func TestCallEndpoint(t *testing.T) {
	b := start(t)
	body, err := rpc.Request(t.Context(), b, "stevedore.rpc.call.default.big", tools.Call{ID: "c", Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := tools.DecodeResult(body); err != nil || e.ID != "c" || e.Outcome != tools.Completed {
		t.Errorf("%.300s, %v", body, err)
	}
	stored, err := b.Last(t.Context(), bus.Results, b.Result("s", "c"))
	if err != nil || string(body) != string(stored.Body) {
		t.Errorf("answered %.300s, stored %.300s, %v", body, stored.Body, err)
	}
	again, err := rpc.Request(t.Context(), b, "stevedore.rpc.call.default.big", tools.Call{ID: "c", Session: "s"})
	if err != nil || string(again) != string(stored.Body) {
		t.Errorf("answered %.300s to the second request, %v", again, err)
	}
	_, err = rpc.Request(t.Context(), b, "stevedore.rpc.call.default.big", tools.Call{ID: "c2", Tool: "shell"})
	if tools.CodeOf(err) != tools.CodeInvalidCall {
		t.Errorf("other tool: %v", err)
	}
	if _, err = rpc.ArtifactLines.Do(t.Context(), b, "s", rpc.ReadRequest{}); tools.CodeOf(err) != tools.CodeInvalidArguments {
		t.Errorf("lines of no artifact: %v", err)
	}
	msg, err := b.Conn().Request("stevedore.rpc.artifact.s.lines", []byte("{not json"), bustest.Timeout)
	if err != nil || msg.Header.Get("Nats-Service-Error-Code") != tools.CodeInvalidArguments || !strings.Contains(string(msg.Data), `"error"`) {
		t.Errorf("%v %s", err, msg.Data)
	}
}

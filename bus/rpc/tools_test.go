package rpc_test

import (
	"context"
	"encoding/json"
	"slices"
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

type offerArgs struct {
	Path string `json:"path"`
}

func offerTool(t *testing.T, name, description string) tools.Tool {
	t.Helper()
	tool, err := tools.NewTool(name, description, func(context.Context, tools.Call, offerArgs) *tools.Result {
		return tools.NewToolResult("ok")
	})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// offering runs a worker, until stop is called.
func offering(t *testing.T, b *bus.Bus, name string, queues []string, offered ...tools.Tool) (stop func()) {
	t.Helper()
	return workertest.Start(t, b, memOffloader(), worker.Config{Name: name, Queues: queues}, offered...)
}

// The tools of several workers on several queues are in one list. If workers offer
// different definitions of a tool, the list has both.
func TestTools(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		serve(t, b, mem.New(offload.StoreConfig{}))
		offering(t, b, "w1", []string{"default"}, offerTool(t, "look", "Look around. At length."), offerTool(t, "paint", "Paint."))
		offering(t, b, "w2", []string{"default", "gpu"}, offerTool(t, "look", "Look around. At length."), offerTool(t, "paint", "Paint in oil."))

		var list rpc.ToolList
		bustest.WaitUntil(t, "the tools of both workers", func() bool {
			body, err := rpc.Request(t.Context(), b, b.RPC("tools", "ls"), struct{}{})
			if err == nil {
				list = rpc.ToolList{}
				err = json.Unmarshal(body, &list)
			}
			if err != nil {
				t.Fatal(err)
			}
			return len(list.Tools) == 3
		})
		type line struct {
			name, summary   string
			queues, workers []string
		}
		want := []line{
			{"look", "Look around", []string{"default", "gpu"}, []string{"w1", "w2"}},
			{"paint", "Paint", []string{"default"}, []string{"w1"}},
			{"paint", "Paint in oil", []string{"default", "gpu"}, []string{"w2"}},
		}
		for i, tool := range list.Tools {
			got := line{tool.Name, tool.Summary(), tool.Queues, tool.Workers}
			if got.name != want[i].name || got.summary != want[i].summary || !slices.Equal(got.queues, want[i].queues) || !slices.Equal(got.workers, want[i].workers) {
				t.Errorf("got %+v, want %+v", got, want[i])
			}
			if tool.Effect != tools.Once || tool.Parameters == nil || tool.Parameters.Properties["path"] == nil {
				t.Errorf("%s: effect %q, parameters %+v", tool.Name, tool.Effect, tool.Parameters)
			}
		}

		var shown rpc.ToolList
		body, err := rpc.Request(t.Context(), b, b.RPC("tools", "show"), tools.OfferQuery{Tool: "paint", Queue: "gpu"})
		if err == nil {
			err = json.Unmarshal(body, &shown)
		}
		if err != nil || len(shown.Tools) != 1 || shown.Tools[0].Description != "Paint in oil." {
			t.Errorf("shown: %s, %v", body, err)
		}
		for request, code := range map[string]string{`{"tool":"nosuch"}`: tools.CodeNotFound, `{}`: tools.CodeInvalidArguments, `{"tool":1}`: tools.CodeInvalidArguments} {
			if _, err := rpc.Request(t.Context(), b, b.RPC("tools", "show"), json.RawMessage(request)); tools.CodeOf(err) != code {
				t.Errorf("show %s: %v, want %s", request, err, code)
			}
		}
	})
}

func TestHasWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		hasWorker := func(queue, tool string) bool {
			t.Helper()
			ok, err := rpc.HasWorker(t.Context(), b, queue, tool)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if hasWorker("default", "") {
			t.Error("a bus without workers has a worker")
		}
		stop := offering(t, b, "w1", []string{"default"}, offerTool(t, "look", "Look."))
		bustest.WaitUntil(t, "the worker", func() bool { return hasWorker("default", "look") })
		if hasWorker("gpu", "") || hasWorker("default", "paint") {
			t.Error("there is a worker for a queue or a tool that none has")
		}
		stop()
		if hasWorker("default", "") {
			t.Error("a stopped worker still answers")
		}
	})
}

package rpc_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
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
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(offered...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := worker.New(b, registry, offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{}), worker.Config{Name: name, Queues: queues})
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("worker %s: %v", name, err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// eventually asks again until the answer is right: workers start when they do.
func eventually(t *testing.T, what string, right func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !right(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// The tools of several workers on several queues become one list. Where workers
// differ about a tool, both of its forms are listed.
func TestTools(t *testing.T) {
	b := bustest.New(t)
	ready := make(chan struct{})
	service := rpc.NewService(b, offload.NewReader(mem.New(offload.StoreConfig{}), offload.ReaderConfig{}), rpc.ServiceConfig{OnReady: func() { close(ready) }})
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() { cancel(); serving.Wait() })
	serving.Go(func() {
		if err := service.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-ready
	offering(t, b, "w1", []string{"default"}, offerTool(t, "look", "Look around. At length."), offerTool(t, "paint", "Paint."))
	offering(t, b, "w2", []string{"default", "gpu"}, offerTool(t, "look", "Look around. At length."), offerTool(t, "paint", "Paint in oil."))

	var list rpc.ToolList
	eventually(t, "the workers are not listed", func() bool {
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
}

func TestListening(t *testing.T) {
	b := bustest.New(t)
	listening := func(queue, tool string) bool {
		t.Helper()
		there, err := rpc.HasWorker(t.Context(), b, queue, tool)
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	if listening("default", "") {
		t.Error("somebody serves an empty bus")
	}
	stop := offering(t, b, "w1", []string{"default"}, offerTool(t, "look", "Look."))
	eventually(t, "nobody serves", func() bool { return listening("default", "look") })
	if listening("gpu", "") || listening("default", "paint") {
		t.Error("somebody serves what nobody offers")
	}
	stop()
	if listening("default", "") {
		t.Error("a worker that has stopped still serves")
	}
}

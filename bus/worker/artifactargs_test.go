package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// An argument {"$artifact":"ID"} is the content of an artifact of the call's session, if
// the tool allows it. The schema is checked with the content, and the id of the call
// still belongs to the arguments that the client sent.
func TestArtifactsAsArguments(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		store := mem.New(offload.StoreConfig{})
		long := strings.Repeat("line of text\n", 25_000) // 325 KB
		for session, text := range map[string]string{"s1": long, "s2": "secret"} {
			rec := offload.Record{Artifact: tools.Artifact{ID: "a" + session}, Session: session}
			if _, err := store.Put(t.Context(), rec, strings.NewReader(text), nil); err != nil {
				t.Fatal(err)
			}
		}
		size := func(name string) *tools.FuncTool {
			tool, err := tools.NewTool(name, "", func(_ context.Context, call tools.Call, in struct {
				Text string `json:"text"`
			}) *tools.Result {
				return tools.NewToolResult(fmt.Sprint(len(in.Text), " ", len(call.Args) > 20))
			})
			if err != nil {
				t.Fatal(err)
			}
			return tool
		}
		start(t, b, worker.Config{Reader: offload.NewReader(store, offload.ReaderConfig{})}, size("size").WithArtifacts(), size("strict"))
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		for i, c := range []struct{ tool, session, args, want, code string }{
			{"size", "s1", `{"text":{"$artifact":"as1"}}`, "325000 true", ""},
			{"size", "s1", `{"text":{"$artifact":"as1","lines":"1-2"}}`, "25 true", ""},
			{"size", "s2", `{"text":{"$artifact":"as1"}}`, "no artifact", tools.CodeNotFound},
			{"size", "s1", `{"text":{"$artifact":"as2"}}`, "no artifact", tools.CodeNotFound},
			{"size", "s1", `{"text":{"$artifact":"as1"},"other":1}`, "other", tools.CodeInvalidArguments},
			{"strict", "s1", `{"text":{"$artifact":"as1"}}`, "want \"string\"", tools.CodeInvalidArguments},
		} {
			submit(t, b, "stevedore.call.default."+c.tool, fmt.Sprintf(`{"id":"c%d","session":%q,"args":%s}`, i, c.session, c.args))
			got, _ := bustest.Next[tools.ResultEvent](t, results)
			code := ""
			if got.Error != nil {
				code = got.Error.Code
			}
			if !strings.Contains(got.ForLLM, c.want) || code != c.code {
				t.Errorf("%s %s in %s gives %q, code %q; want %q, %q", c.tool, c.args, c.session, tools.Excerpt(got.ForLLM, 300), code, c.want, c.code)
			}
		}
		// The id belongs to the arguments of the client: with the content itself, it is
		// another call.
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		waitEmpty(t, b)
		submit(t, b, "stevedore.call.default.size", fmt.Sprintf(`{"id":"c0","session":"s1","args":{"text":%q}}`, long))
		if got, _ := bustest.Next[dead.Letter](t, letters); got.Code != tools.CodeMismatch {
			t.Errorf("the same id with other arguments: %+v", got)
		}
	})
}

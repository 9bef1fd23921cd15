package mcp

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/tools"
)

// A client sees the arguments of tools whose schemas do not fit into one message. They are asked for once.
func TestSchemasThatDoNotFitIntoAMessage(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		asked := make(chan string, 100)
		sub, err := b.Conn().Subscribe(b.RPC("offer"), func(msg *nats.Msg) { // as a worker answers
			var q tools.OfferQuery
			if err := json.Unmarshal(msg.Data, &q); err != nil {
				t.Error(err)
			}
			asked <- q.Tool
			offer := tools.Offer{Worker: "w", Queues: []string{"default"}, Tools: []tools.OfferedTool{{Name: "one"}, {Name: "two"}}}
			if q.Tool != "" {
				offer.Tools = []tools.OfferedTool{{Name: q.Tool, Parameters: &jsonschema.Schema{Type: "object", Required: []string{"of_" + q.Tool}}}}
			}
			body, _ := json.Marshal(offer)
			if err := msg.Respond(body); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		g := New(b, Config{})
		for range 2 {
			if err := g.ask(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two"} {
				schema, _ := toolOf(g.offers[name].OfferedTool).InputSchema.(*jsonschema.Schema)
				if schema == nil || !slices.Equal(schema.Required, []string{"of_" + name}) {
					t.Errorf("the schema of %s is %+v", name, schema)
				}
			}
		}
		if len(asked) != 4 { // for all tools twice, for each once
			t.Errorf("%d requests", len(asked))
		}
	})
}

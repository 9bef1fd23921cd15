package mcp

import (
	"context"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// schemasAtOnce is how many schemas are asked for at the same time.
const schemasAtOnce = 32

// addSchemas asks for each schema that the tools lack, because all those of a worker do not fit into one message: a model could not see
// the arguments of any tool. It asks again when the workers offer the tool otherwise. Only one caller at a time.
func (g *Gateway) addSchemas(ctx context.Context, list []rpc.ToolInfo) error {
	var mu sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(schemasAtOnce)
	schemas := map[string]*jsonschema.Schema{}
	for i := range list {
		t := &list[i]
		if t.Parameters != nil {
			continue
		}
		offered := string(wire.JSON(t))
		asking.Go(func() error {
			schema, known := g.schemas[offered]
			if !known {
				found, err := rpc.ListTools(ctx, g.bus, tools.OfferQuery{Tool: t.Name})
				if err != nil {
					return err
				}
				known = len(found.Tools) > 0
				for _, f := range found.Tools {
					if f.Parameters != nil && (schema == nil || f.Description == t.Description) {
						schema = f.Parameters
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if t.Parameters = schema; known {
				schemas[offered] = schema
			}
			return nil
		})
	}
	err := asking.Wait()
	if err == nil {
		g.schemas = schemas
	}
	return err
}

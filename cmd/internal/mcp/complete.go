package mcp

import (
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// complete marks a result as complete, which revision 2026-07-28 demands. The SDK does so
// only for the results of its own handlers. For clients of earlier revisions, it removes
// what these do not know.
type complete struct {
	mcp.ResultBase
	result  mcp.Result
	earlier bool
}

func (c *complete) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(c.result)
	o := wire.ObjectOf(data)
	switch {
	case err != nil:
		return nil, err
	case c.earlier:
		o = slices.DeleteFunc(o, func(m wire.Member) bool {
			return m.Name == "resultType" || m.Name == "ttlMs" || m.Name == "cacheScope"
		})
	case o.Get("resultType") == nil:
		o = o.With("resultType", wire.JSON("complete"))
	}
	return o.Text(), nil
}

// completed marks a result, unless it is a task or asks for input.
func completed(req mcp.Request, result mcp.Result, err error) (mcp.Result, error) {
	s, _ := req.GetSession().(*mcp.ServerSession)
	earlier := s != nil && s.InitializeParams() != nil && s.InitializeParams().ProtocolVersion < wire.Stateless
	switch result.(type) {
	case *taskFields, *inputRequired:
		return result, err
	case *mcp.ListToolsResult: // of the SDK
		if !earlier {
			return result, err
		}
	}
	if err != nil {
		return nil, err
	}
	return &complete{result: result, earlier: earlier}, nil
}

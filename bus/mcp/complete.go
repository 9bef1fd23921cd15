package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// complete marks a result as complete, which revision 2026-07-28 demands and earlier
// ones ignore. The SDK does so only for the results of its own handlers.
type complete struct {
	mcp.ResultBase
	result mcp.Result
}

// MarshalJSON implements json.Marshaler.
func (c *complete) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(c.result)
	if err != nil || bytes.Contains(data[:min(len(data), 40)], []byte(`"resultType"`)) {
		return data, err
	}
	field := []byte(`{"resultType":"complete"`)
	if !bytes.Equal(data, []byte("{}")) {
		field = append(field, ',')
	}
	return append(field, data[1:]...), nil
}

// completed marks a result, unless it is a task or asks for input.
func completed(result mcp.Result, err error) (mcp.Result, error) {
	if err != nil {
		return result, err
	}
	switch result.(type) {
	case *taskFields, *inputRequired:
		return result, nil
	}
	return &complete{result: result}, nil
}

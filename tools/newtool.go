package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// NewTool returns a tool that calls fn. The struct In defines the arguments: a json
// tag names an argument, omitempty or omitzero makes it optional, and a jsonschema tag
// describes it to the model.
//
// The tool's effect is Once; WithEffect sets another one.
func NewTool[In any](name, description string, fn func(ctx context.Context, call Call, in In) *Result) (*FuncTool, error) {
	schema, err := schemaFor[In]()
	if err != nil {
		return nil, fmt.Errorf("tool %q: schema of %T: %w", name, *new(In), err)
	}
	t := &FuncTool{
		def: Definition{Name: name, Description: description, Parameters: schema, Effect: Once},
	}
	t.fn = func(ctx context.Context, call Call) *Result {
		var in In
		if len(call.Args) > 0 {
			err := json.Unmarshal(call.Args, &in)
			if err != nil && t.def.Lenient { // 5.0 is an integer
				args, _ := Coerce(t.def.Parameters, nil, call.Args)
				in = *new(In)
				err = json.Unmarshal(args, &in)
			}
			if err != nil {
				return Failure(Errorf(CodeInvalidArguments, "arguments of %s: %v", name, err))
			}
		}
		return fn(ctx, call, in)
	}
	return t, nil
}

// schemas has the schema of each type, because the registries of many tenants have the same tools.
var schemas sync.Map

func schemaFor[In any]() (*jsonschema.Schema, error) {
	of := reflect.TypeFor[In]()
	if known, ok := schemas.Load(of); ok {
		return known.(*jsonschema.Schema), nil
	}
	schema, err := jsonschema.For[In](&jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}},
	})
	if err == nil {
		schemas.Store(of, schema)
	}
	return schema, err
}

// WithOwnSchema gives the tool a schema that the caller may change, and returns t. Otherwise, tools
// with the same type of arguments share it.
func (t *FuncTool) WithOwnSchema() *FuncTool {
	t.def.Parameters = t.def.Parameters.CloneSchemas()
	return t
}

// MustTool is NewTool for a struct In that has a schema. It panics if In has none.
func MustTool[In any](name, description string, fn func(ctx context.Context, call Call, in In) *Result) *FuncTool {
	t, err := NewTool(name, description, fn)
	if err != nil {
		panic(err)
	}
	return t
}

// FuncTool is a Tool that calls a function.
type FuncTool struct {
	def Definition
	fn  func(ctx context.Context, call Call) *Result
}

// WithEffect sets the effect and returns t.
func (t *FuncTool) WithEffect(effect Effect) *FuncTool {
	t.def.Effect = effect
	return t
}

// WithoutOffload exempts the tool's results from offloading, and returns t.
func (t *FuncTool) WithoutOffload() *FuncTool {
	t.def.NoOffload = true
	return t
}

// WithArtifacts lets arguments be artifacts (see Definition.AcceptsArtifacts), and
// returns t.
func (t *FuncTool) WithArtifacts() *FuncTool {
	t.def.AcceptsArtifacts = true
	return t
}

// Leniently accepts arguments of other forms and with other names (see Coerce), and
// returns t.
func (t *FuncTool) Leniently(aliases map[string]string) *FuncTool {
	t.def.Lenient, t.def.Aliases = true, aliases
	return t
}

// Definition describes the tool.
func (t *FuncTool) Definition() Definition { return t.def }

// Execute runs the function.
func (t *FuncTool) Execute(ctx context.Context, call Call) *Result { return t.fn(ctx, call) }

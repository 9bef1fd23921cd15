package artifacts

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Family are the names of the tools that read artifacts on the bus.
var Family = []string{offload.ToolGet, offload.ToolLines, offload.ToolGrep, offload.ToolJQ, offload.ToolSQL, offload.ToolQuery, offload.ToolInfo}

// ReadResult is the one tool that does what the family does.
const ReadResult = "read_result"

// Tools runs the reading tools.
type Tools struct {
	registry *tools.Registry
	family   bool
}

// NewTools returns the reading tools of reader: the family, or only ReadResult. Definitions
// of tools are part of every request to a model: those of the family have 5,000 characters,
// that of ReadResult 400.
func NewTools(reader *offload.Reader, family bool) (*Tools, error) {
	t := &Tools{registry: tools.NewRegistry(zerolog.Nop()), family: family}
	return t, t.registry.Register(reader.Tools()...)
}

// Names are the names of the tools.
func (t *Tools) Names() []string {
	if t.family {
		return Family
	}
	return []string{ReadResult}
}

// List returns the definitions under the names that rename returns.
func (t *Tools) List(rename func(string) string) (list []*mcp.Tool) {
	if !t.family {
		return []*mcp.Tool{{Name: rename(ReadResult), Description: "Read a stored result by lines (10-40, -20), grep, jq, offset, or sql " +
			"(SELECT ... FROM \"ID\" JOIN \"ID2\")", InputSchema: readSchema}}
	}
	for _, def := range t.registry.Definitions() {
		list = append(list, &mcp.Tool{
			Name: rename(def.Name), Description: t.Text(def.Description, rename, Way{}), InputSchema: def.Parameters,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(false)},
		})
	}
	return list
}

// readSchema is the schema of ReadResult.
var readSchema = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
	"id": {Type: "string"}, "lines": {Type: "string"}, "grep": {Type: "string"}, "jq": {Type: "string"}, "sql": {Type: "string"},
	"offset": {Type: "integer"}, "cursor": {Type: "string"},
}, PropertyOrder: []string{"id", "lines", "grep", "jq", "sql", "offset", "cursor"}}

// Call runs a tool for a session.
func (t *Tools) Call(ctx context.Context, session, name string, args json.RawMessage) *tools.Result {
	if !t.family {
		var err error
		if name, args, err = t.ofFamily(args); err != nil {
			return tools.Failure(err)
		}
	}
	return t.registry.Run(ctx, tools.Call{ID: "mcp", Session: session, Tool: name, Args: args}, nil)
}

// idNames are the names that models use for the argument with the artifact.
var idNames = []string{"id", "artifact_id", "knowledge_id", "artifact"}

// IDIn returns the artifact that the arguments of a reading tool name, or "".
func IDIn(args json.RawMessage) string {
	for _, name := range idNames {
		if id, _ := wire.Text(wire.Get(args, name)); id != "" {
			return id
		}
	}
	return ""
}

// ofFamily returns the tool of the family, and its arguments, for a call of ReadResult. It
// passes on arguments that it does not know, such as ignore_case of grep.
func (t *Tools) ofFamily(args json.RawMessage) (tool string, _ json.RawMessage, err error) {
	args, _ = tools.Coerce(readSchema, nil, args)
	in := map[string]json.RawMessage{}
	if len(args) > 0 && json.Unmarshal(args, &in) != nil {
		return offload.ToolGet, args, nil // its error says what is wrong
	}
	for name, value := range in { // models also give the arguments that they do not need
		if text := string(value); text == `""` || text == "null" || text == "0" {
			delete(in, name)
		}
	}
	var ways []string
	for _, way := range []struct{ argument, tool string }{{"jq", offload.ToolJQ}, {"sql", offload.ToolSQL},
		{"grep", offload.ToolGrep}, {"lines", offload.ToolLines}} {
		if in[way.argument] != nil {
			ways, tool = append(ways, way.argument), way.tool
		}
	}
	given := func(name string) bool { return in[name] != nil }
	switch {
	case len(ways) > 1:
		return "", nil, tools.Errorf(tools.CodeInvalidArguments, "give one of %s", strings.Join(ways, " and "))
	case tool == "" && !slices.ContainsFunc(idNames, given):
		tool = offload.ToolQuery
	case tool == "" && (given("cursor") || given("start_line") || given("end_line")):
		tool = offload.ToolLines
	case tool == "":
		tool = offload.ToolGet
	case tool == offload.ToolLines && !given("cursor"):
		var text any
		_ = json.Unmarshal(in["lines"], &text) // it is a part of JSON
		lines, err := offload.ParseLines(text)
		if err != nil {
			return "", nil, err
		}
		in["start_line"], _ = json.Marshal(lines.StartLine) // a number always has a JSON form
		if in["end_line"], _ = json.Marshal(lines.EndLine); lines.EndLine == 0 {
			delete(in, "end_line")
		}
	case tool == offload.ToolGrep:
		in["pattern"] = in["grep"]
	}
	if id := in["id"]; tool == offload.ToolSQL && id != nil {
		in["artifacts"] = slices.Concat([]byte("["), id, []byte("]"))
		delete(in, "id")
	}
	delete(in, "lines")
	delete(in, "grep")
	args, err = json.Marshal(in)
	return tool, args, err
}

// Text replaces the names of the family in a text by those that the client knows, or by the way in which its model reads instead.
func (t *Tools) Text(text string, rename func(string) string, way Way) string {
	if !t.family {
		text = calls.ReplaceAllStringFunc(text, func(list string) string {
			var arguments []string
			for _, call := range call.FindAllString(list, -1) {
				arguments = append(arguments, readArgument[call[:strings.IndexByte(call, '(')]])
			}
			return way.call(arguments)
		})
		rename = func(name string) string { return way.with(readArgument[name]) }
	}
	var pairs []string
	for _, name := range Family {
		pairs = append(pairs, name, rename(name))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// call matches a call of a tool of the family as references name it, and calls a list of them.
var (
	call  = lazyregexp.New(callForm)
	calls = lazyregexp.New(callForm + `(?:(?:, | or | and )` + callForm + `)*`)
)

const callForm = `(?:get_knowledge_by_id|get_knowledge_by_lines|grep_knowledge|jq_knowledge|sql_knowledge)\((?:artifact_id|artifacts)(?:, \w+)*\)`

// readArgument is the argument of ReadResult that does what a tool of the family does.
var readArgument = map[string]string{offload.ToolGet: "offset", offload.ToolLines: "lines", offload.ToolGrep: "grep",
	offload.ToolJQ: "jq", offload.ToolSQL: "sql"}

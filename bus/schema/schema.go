package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Document returns the JSON Schema of each body as one document, in $defs by name. They allow unknown
// fields, because later versions add fields, except in JobRequest.
func Document() (*jsonschema.Schema, error) {
	schemas := map[string]*jsonschema.Schema{}
	opts := &jsonschema.ForOptions{TypeSchemas: typeSchemas()}
	entry, err := jsonschema.For[cron.EntryJSON](opts)
	if err != nil {
		return nil, err
	}
	opts.TypeSchemas[reflect.TypeFor[cron.Entry]()] = entry
	for name, t := range types() {
		s, err := jsonschema.ForType(t, opts)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		if reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Text() string }]()) {
			s.Properties["text"] = &jsonschema.Schema{Type: "string", Description: "the answer as a model would see it"}
			s.Required = append(s.Required, "text")
			s.PropertyOrder = append([]string{"text"}, s.PropertyOrder...)
		}
		schemas[name] = s
	}
	for _, t := range offload.NewReader(nil, offload.ReaderConfig{}).Tools() {
		if name := readRequests[t.Definition().Name]; name != "" {
			schemas[name] = t.Definition().Parameters.CloneSchemas()
		}
	}
	adjust(schemas)
	for name, s := range schemas {
		if s.Title = name; name != "JobRequest" {
			open(s)
		}
	}
	return &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		Title:  "Stevedore", Description: "The bodies of all events, requests and answers.",
		Defs: schemas,
	}, nil
}

// adjust adds what the Go types do not say.
func adjust(schemas map[string]*jsonschema.Schema) {
	schemas["QueryRequest"].Properties["limit"] = &jsonschema.Schema{Type: "integer", Description: "how many artifacts to list; default and maximum 200"}
	schemas["InfoRequest"] = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
		"task_id":     {Type: "string", Description: "only results of this task"},
		"artifact_id": {Type: "string", Description: "get the record of this artifact"},
	}}
	schemas["Info"] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Ref: "#/$defs/ArtifactList"}, {Ref: "#/$defs/Record"}}}
	for _, name := range []string{"JobRequest", "JobQuery"} { // the action is part of the subject
		schemas[name].Required = slices.DeleteFunc(schemas[name].Required, func(name string) bool { return name == "action" })
	}
	for _, name := range []string{"Call", "RawResult"} {
		for field, text := range callFields {
			schemas[name].Properties[field].Description = text
		}
		schemas[name].Properties["args"].Type = "object"
	}
	raw := schemas["RawResult"]
	raw.Properties["object"].Description = "the name of an object that the producer uploaded to the object store before"
	raw.Properties["content"] = &jsonschema.Schema{Types: []string{"string", "array"}, Description: "a string or an array of content blocks"}
	raw.OneOf = []*jsonschema.Schema{{Required: []string{"for_llm"}}, {Required: []string{"content"}}, {Required: []string{"object"}}}
	schemas["Notification"].Properties["text"].MinLength = new(1)
	schemas["ToolDefinition"].Required = nil
}

// callFields describe the fields of a call.
var callFields = map[string]string{
	"id":       "names the call within its session; any text",
	"session":  "the conversation; default if it is missing",
	"tool":     "must equal the tool in the subject",
	"args":     "a JSON object that matches the tool's schema",
	"channel":  "where the user of this call reads",
	"offload":  "true stores the result as an artifact in any case, false never",
	"deadline": "time after which no one needs the result",
	"delivery": "who gets the completion of an async call of an agent",
}

// typeSchemas are the types whose JSON the package jsonschema cannot derive.
func typeSchemas() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage]():    {},
		reflect.TypeFor[[]byte]():             {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[jsonschema.Schema]():  {Type: "object", Description: "a JSON Schema"},
		reflect.TypeFor[tools.Outcome]():      enum(tools.Completed, tools.Async, tools.Failed, tools.Cancelled, tools.Timeout, tools.Unknown),
		reflect.TypeFor[tools.Effect]():       enum(tools.Idempotent, tools.Keyed, tools.Once),
		reflect.TypeFor[tools.Delivery]():     enum(tools.DeliverUser, tools.DeliverParent, tools.DeliverBoth),
		reflect.TypeFor[tools.ActivityType](): enum(tools.ActivityText, tools.ActivityToolStart, tools.ActivityToolEnd, tools.ActivityWaiting),
		reflect.TypeFor[task.State](): enum(task.Queued, task.Waiting, task.InputRequired, task.Running, task.Completed,
			task.Failed, task.Cancelled, task.Timeout, task.Unknown),
	}
}

func enum[T ~string](values ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// open allows unknown fields at every level, and removes null where the field is left
// out instead.
func open(s *jsonschema.Schema) {
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil { // false
		s.AdditionalProperties = nil
	}
	for name, p := range s.Properties {
		if !slices.Contains(s.Required, name) && len(p.Types) == 2 && p.Types[0] == "null" {
			p.Type, p.Types = p.Types[1], nil
		}
		open(p)
	}
	for _, child := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if child != nil {
			open(child)
		}
	}
}

// Standalone returns one schema of a document as a document of its own, with those that it
// refers to.
func Standalone(doc *jsonschema.Schema, name string) *jsonschema.Schema {
	one := doc.Defs[name]
	one.Schema = doc.Schema
	for _, other := range one.AnyOf {
		if one.Defs == nil {
			one.Defs = map[string]*jsonschema.Schema{}
		}
		referred := other.Ref[len("#/$defs/"):]
		one.Defs[referred] = doc.Defs[referred]
	}
	return one
}

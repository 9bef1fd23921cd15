package tools

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

type schemaArgs struct {
	Text  string `json:"text"`
	Other string `json:"other,omitempty" jsonschema:"with a description"`
	Flag  bool   `json:"flag,omitempty"`
	N     int    `json:"n,omitempty"`
}

func newTestPlainSchemas(t testing.TB) (*plainSchema, *jsonschema.Resolved) {
	t.Helper()
	schema, err := jsonschema.For[schemaArgs](nil)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	fast := newPlainSchema(schema)
	if fast == nil {
		t.Fatal("no plainSchema for an ordinary schema")
	}
	return fast, resolved
}

var schemaCases = map[string]bool{ // arguments, and what accepts reports
	`{"text":"x"}`:                         true,
	` { "text" : "a \" b", "flag": true} `: true,
	`{"text":"x","other":"{,:}"}`:          true,
	`{"text":"x","n":3}`:                   false, // fits, but it leaves numbers to the validator
	`{"te\u0078t":"x"}`:                    true,
	`{"text":"x","text":"y"}`:              false,
	`{}`:                                   false,
	`{"other":"x"}`:                        false,
	`{"text":7}`:                           false,
	`{"text":null}`:                        false,
	`{"text":["x"]}`:                       false,
	`{"text":{"text":"x"}}`:                false,
	`{"text":"x","more":"y"}`:              false,
	`{"text":"x","flag":"true"}`:           false,
	`{"text":"x"}{`:                        false,
	`[]`:                                   false,
	`"text"`:                               false,
	``:                                     false,
}

func TestPlainSchema(t *testing.T) {
	s, _ := newTestPlainSchemas(t)
	for args, want := range schemaCases {
		if got := s.accepts([]byte(args)); got != want {
			t.Errorf("accepts(%s) = %v, want %v", args, got, want)
		}
	}
	for _, text := range []string{
		`{"type":"object","properties":{"a":{"type":"string","minLength":2}}}`,
		`{"type":"object","properties":{"a":{"enum":["x"]}}}`,
		`{"type":"object","minProperties":1}`,
		`{"type":"array"}`,
		`{"type":"object","additionalProperties":{"type":"string"}}`,
	} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		if newPlainSchema(&schema) != nil {
			t.Errorf("a plainSchema for %s", text)
		}
	}
}

// The validator accepts what accepts accepts.
func FuzzPlainSchema(f *testing.F) {
	for args := range schemaCases {
		f.Add([]byte(args))
	}
	fast, validator := newTestPlainSchemas(f)
	f.Fuzz(func(t *testing.T, args []byte) {
		if !fast.accepts(args) {
			return
		}
		var instance map[string]any
		if err := json.Unmarshal(args, &instance); err != nil {
			t.Fatalf("accepts %q: %v", args, err)
		}
		if err := validator.Validate(instance); err != nil {
			t.Errorf("accepts %q: %v", args, err)
		}
	})
}

package fastjson

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

func newSchemas(t testing.TB) (*Schema, *jsonschema.Resolved) {
	t.Helper()
	schema, err := jsonschema.For[schemaArgs](nil)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	fast := NewSchema(schema)
	if fast == nil {
		t.Fatal("no Schema for an ordinary schema")
	}
	return fast, resolved
}

var schemaCases = map[string]bool{ // arguments, and what Accepts reports
	`{"text":"x"}`:                         true,
	` { "text" : "a \" b", "flag": true} `: true,
	`{"text":"x","other":"{,:}"}`:          true,
	`{"text":"x","n":3}`:                   false, // fits, but Accepts leaves numbers to the validator
	`{"te\u0078t":"x"}`:                    false,
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

func TestSchema(t *testing.T) {
	s, _ := newSchemas(t)
	for args, want := range schemaCases {
		if got := s.Accepts([]byte(args)); got != want {
			t.Errorf("Accepts(%s) = %v, want %v", args, got, want)
		}
	}
	for _, text := range []string{
		`{"type":"object","properties":{"a":{"type":"string","minLength":2}}}`,
		`{"type":"object","properties":{"a":{"enum":["x"]}}}`,
		`{"type":"object","minProperties":1}`,
		`{"type":"array"}`,
		`{"type":"object","required":["a"]}`,
		`{"type":"object","additionalProperties":{"type":"string"}}`,
	} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		if NewSchema(&schema) != nil {
			t.Errorf("a Schema for %s", text)
		}
	}
}

// The validator accepts what Accepts accepts.
func FuzzSchema(f *testing.F) {
	for args := range schemaCases {
		f.Add([]byte(args))
	}
	fast, validator := newSchemas(f)
	f.Fuzz(func(t *testing.T, args []byte) {
		if !fast.Accepts(args) {
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

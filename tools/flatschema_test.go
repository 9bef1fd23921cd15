package tools

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

type flatArgs struct {
	Text  string `json:"text"`
	Other string `json:"other,omitempty" jsonschema:"with a description"`
	Flag  bool   `json:"flag,omitempty"`
	N     int    `json:"n,omitempty"`
}

func flatEntry(t testing.TB) entry {
	t.Helper()
	schema, err := jsonschema.For[flatArgs](nil)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := entry{schema: resolved, flat: flatten(schema)}
	if e.flat == nil {
		t.Fatal("an ordinary schema is not flat")
	}
	return e
}

var flatCases = map[string]bool{ // arguments, and whether the short way accepts them
	`{"text":"x"}`:                         true,
	` { "text" : "a \" b", "flag": true} `: true,
	`{"text":"x","other":"{,:}"}`:          true,
	`{"text":"x","n":3}`:                   false, // fits, but the short way does not say so
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

func TestFlatSchema(t *testing.T) {
	e := flatEntry(t)
	for args, want := range flatCases {
		if got := e.flat.accepts([]byte(args)); got != want {
			t.Errorf("accepts(%s) = %v, want %v", args, got, want)
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
		if flatten(&schema) != nil {
			t.Errorf("%s is taken for flat", text)
		}
	}
}

// What the short way accepts, the validator accepts.
func FuzzFlatSchema(f *testing.F) {
	for args := range flatCases {
		f.Add([]byte(args))
	}
	e := flatEntry(f)
	slow := entry{schema: e.schema}
	f.Fuzz(func(t *testing.T, args []byte) {
		if e.flat.accepts(args) {
			if err := slow.validate(args); err != nil {
				t.Errorf("accepts %q: %v", args, err)
			}
		}
	})
}

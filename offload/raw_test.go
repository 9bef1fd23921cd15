package offload_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// A result that waits for a store as a raw result loses no field, also none that Result gets later.
func TestRawResultHasAllFields(t *testing.T) {
	var want tools.Result
	fill(t, reflect.ValueOf(&want).Elem())
	raw, ok := tools.RawOf(tools.Call{ID: "c1", Session: "s1", Tool: "x"}, &want, 1<<20)
	if !ok {
		t.Fatal("the result cannot be a raw one")
	}
	got, err := new(offload.Offloader).Raw(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	have, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := json.Marshal(want); string(have) != string(all) || err != nil {
		t.Errorf("got %s, want %s, %v", have, all, err)
	}
}

// fill sets all fields that can be in an event, except those with which a result cannot wait.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for field, value := range v.Fields() {
		switch {
		case slices.Contains([]string{"Async", "Artifact", "Blocks"}, field.Name) || field.Tag.Get("json") == "-":
		case field.Anonymous:
			fill(t, value)
		case value.Kind() == reflect.Bool:
			value.SetBool(true)
		case value.Kind() == reflect.String:
			value.SetString(field.Name)
		case value.Type() == reflect.TypeFor[*int]():
			value.Set(reflect.ValueOf(new(7)))
		default:
			t.Errorf("the test cannot set %s", field.Name)
		}
	}
}

package schema_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/schema"
	"github.com/stevedore-bus/stevedore/offload"
)

// The contract, the tools of models and the service agree on the name, the subject and the input of each
// operation that the workers offer, and contain no other ones.
func TestOperationsAgree(t *testing.T) {
	schemas, err := schema.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := bus.NewSubjects("stevedore")
	if err != nil {
		t.Fatal(err)
	}
	contract := map[string]schema.Operation{}
	for _, op := range schema.Operations(subjects) {
		contract[op.Name] = op
	}
	arguments := map[string][]string{}
	for _, tool := range offload.NewReader(nil, offload.ReaderConfig{}).Tools() {
		for name := range tool.Definition().Parameters.Properties {
			arguments[tool.Definition().Name] = append(arguments[tool.Definition().Name], name)
		}
	}
	for _, op := range rpc.Operations() {
		got, ok := contract[op.Name]
		if op.Subject == "" {
			if ok {
				t.Errorf("%s: no worker offers it, but the contract has it", op.Name)
			}
			continue
		}
		want := subjects.RPC(regexp.MustCompile("[A-Z]+").ReplaceAllStringFunc(op.Subject, func(w string) string { return "{" + strings.ToLower(w) + "}" }))
		if !ok || got.Subject != want || got.Summary != op.Summary {
			t.Errorf("%s: the contract has %+v, want the subject %s", op.Name, got, want)
		}
		var inputs []string
		for _, field := range reflect.VisibleFields(op.In) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
				inputs = append(inputs, name)
			}
		}
		if body := schemas[got.Body]; body != nil {
			for name := range body.Properties {
				if !slices.Contains(inputs, name) {
					t.Errorf("%s: the schema %s has %s, which the operation does not read", op.Name, got.Body, name)
				}
			}
		}
		if op.Tool != "" && len(arguments[op.Tool]) == 0 {
			t.Errorf("%s: there is no tool %s", op.Name, op.Tool)
		}
		for _, name := range arguments[op.Tool] {
			if op.Tool == offload.ToolInfo { // for the model, the task of another agent has a name of its own
				break
			}
			if !slices.Contains(inputs, name) {
				t.Errorf("%s: its tool %s has %s, which the operation does not read", op.Name, op.Tool, name)
			}
		}
	}
}

package console

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// The routes of the page give their operations inputs that these have, and only those that POST change
// something, because a page that is read-only refuses these.
func TestRoutesFitTheirOperations(t *testing.T) {
	t.Parallel()
	others := []*rpc.Operation{
		&answerApproval.Operation, &showCall.Operation, &showSession.Operation, &sendMessage.Operation, &showDead.Operation,
		&changeDead.Operation, &cancelCalls.Operation,
		&agents.ListSessions.Operation, &agents.RemoveSession.Operation, &agents.GetTrace.Operation, &agents.GetTurn.Operation, &agents.GetUsage.Operation,
	}
	table := slices.Concat(rpc.Operations(), others)
	names := map[string]bool{}
	for _, op := range table {
		if names[op.Name] || op.Summary == "" || op.In == nil || op.Out == nil {
			t.Errorf("the operation %q is there twice, or not described", op.Name)
		}
		names[op.Name] = true
	}
	for pattern, r := range operations {
		if !names[r.op.Name] {
			t.Errorf("%s: no table has its operation", pattern)
		}
		if strings.HasPrefix(pattern, "POST ") != r.op.Changes {
			t.Errorf("%s: changes something: %v", pattern, r.op.Changes)
		}
		inputs := map[string]bool{"session": strings.Contains(r.op.Subject, "SESSION")}
		for _, field := range reflect.VisibleFields(r.op.In) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			inputs[name] = true
		}
		for _, name := range pathNames.FindAllStringSubmatch(pattern, -1) {
			if !inputs[name[1]] {
				t.Errorf("%s: %s has no %s", pattern, r.op.Name, name[1])
			}
		}
		defaults, err := url.ParseQuery(r.defaults)
		for name := range defaults {
			if !inputs[name] || err != nil {
				t.Errorf("%s: %s has no %s (%v)", pattern, r.op.Name, name, err)
			}
		}
	}
}

// A message is stored if workers stand still, and the page says that nobody answers.
func TestMessageWhileWorkersStandStill(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		bustest.Subscribe(t, b, b.RPC("offer"))
		sent, err := sendMessage.Here(t.Context(), b, "s", message{Session: "s", Prompt: "Hello."})
		if err != nil || !strings.Contains(sent.Warning, "no worker answers now") || bustest.Messages(t, b, bus.Calls) != 1 {
			t.Errorf("%+v, %v", sent, err)
		}
	})
}

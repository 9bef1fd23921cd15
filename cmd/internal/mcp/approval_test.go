package mcp_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp"
	"github.com/stevedore-bus/stevedore/tools"
)

// user answers forms.
type user struct {
	asked  atomic.Int64
	answer sdk.ElicitResult
}

func (u *user) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		u.asked.Add(1)
		if !strings.Contains(r.Params.Message, "May echo run?") || !strings.Contains(r.Params.Message, "danger") {
			return &sdk.ElicitResult{Action: "cancel"}, nil
		}
		answer := u.answer
		return &answer, nil
	}}
}

// The user of a client that shows forms approves a call or denies it, in both ways in which
// servers ask. Other clients get the id of the call.
func TestApprovals(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	// A call whose form gets no answer takes the shorter time.
	answered, dismissed := mcp.Config{Wait: bustest.Timeout}, mcp.Config{Wait: 2 * time.Second}
	urls := map[bool]string{true: gateways(t, c, 2, answered), false: gateways(t, c, 2, dismissed)}
	stdio := map[bool]*mcp.Gateway{true: mcp.New(c.Bus, answered), false: mcp.New(c.Bus, dismissed)}
	for name, test := range map[string]struct {
		answer sdk.ElicitResult
		want   string
		asked  int64
	}{
		"yes":       {sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, "danger", 1},
		"no":        {sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": false, "reason": "too early"}}, "Reason: too early", 1},
		"declined":  {sdk.ElicitResult{Action: "decline"}, "the user denied it", 1},
		"dismissed": {sdk.ElicitResult{Action: "cancel"}, "waits until a person approves the use of echo", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := name != "dismissed"
			t.Run("round trips", func(t *testing.T) {
				t.Parallel()
				u := user{answer: test.answer}
				_, s := dial(t, urls[answers], bearer(aliceToken), u.options())
				if got := text(t, call(t, s, "echo", map[string]any{"text": "danger"})); !strings.Contains(got, test.want) || u.asked.Load() != test.asked {
					t.Errorf("%q after %d questions", got, u.asked.Load())
				}
			})
			t.Run("requests of the server", func(t *testing.T) {
				t.Parallel()
				u := user{answer: test.answer}
				mine, theirs := sdk.NewInMemoryTransports()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				served := make(chan error, 1)
				go func() { served <- stdio[answers].Stdio(ctx, "stdio", theirs) }()
				old, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, u.options()).
					Connect(t.Context(), mine, &sdk.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
				if err != nil {
					t.Fatal(err)
				}
				if got := text(t, call(t, old, "echo", map[string]any{"text": "danger"})); !strings.Contains(got, test.want) || u.asked.Load() != test.asked {
					t.Errorf("%q after %d questions", got, u.asked.Load())
				}
				if err := old.Close(); err != nil {
					t.Error(err)
				}
				<-served
			})
		})
	}
	t.Run("without forms", func(t *testing.T) {
		t.Parallel()
		_, s := dial(t, urls[false], bearer(bobToken), nil)
		if got := text(t, call(t, s, "echo", map[string]any{"text": "danger"})); !strings.Contains(got, "waits until a person approves") {
			t.Errorf("a client without forms got %q", got)
		}
	})
}

// A client does not answer for a call of another session, nor for one that its request did
// not make.
func TestApprovalsOfOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 1, mcp.Config{Wait: 300 * time.Millisecond})
	_, alice := dial(t, url, bearer(aliceToken), nil)
	params := &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "danger"}, Meta: sdk.Meta{mcp.CallIDMeta: "x"}}
	key := tools.CallKey{Session: "alice", ID: "x"}
	bustest.WaitUntil(t, "the question", func() bool {
		if _, err := alice.CallTool(t.Context(), params); err != nil { // on a slow machine, the time to wait ends before the call is stored
			t.Fatal(err)
		}
		approvals, err := approvals.For(t.Context(), c.Bus, key)
		return err == nil && len(approvals) == 1
	})
	approve := sdk.InputResponseMap{"alice.x": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}}
	_, bob := dial(t, url, bearer(bobToken), nil)
	for _, params := range []*sdk.CallToolParams{
		{Name: "echo", Arguments: map[string]any{"text": "danger"}, RequestState: "x", InputResponses: approve},
		{Name: "echo", Arguments: map[string]any{"text": "hi"}, RequestState: "alice.x", InputResponses: approve},
	} {
		if _, err := bob.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := alice.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}, InputResponses: approve}); err != nil {
		t.Fatal(err)
	}
	if r, err := task.ReadRecord(t.Context(), c.Bus, key); r.Answer != nil || err != nil {
		t.Errorf("the call of alice was answered: %v", err)
	}
}

// A task whose call needs an approval has the status input_required, and tasks/update answers. The question
// has the start of long arguments, and says so.
func TestApprovalOfATask(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 2, mcp.Config{TaskAfter: 500 * time.Millisecond})
	client, s := dial(t, url, bearer(aliceToken), nil)
	type updateParams struct {
		sdk.ParamsBase
		TaskID    string               `json:"taskId"`
		Responses sdk.InputResponseMap `json:"inputResponses"`
	}
	if err := sdk.AddSendingCustomMethod[*updateParams, *taskResult](client, "tasks/update"); err != nil {
		t.Fatal(err)
	}
	caps := map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}, "elicitation": map[string]any{"form": map[string]any{}}}
	meta := sdk.Meta{"io.modelcontextprotocol/clientCapabilities": caps, mcp.CallIDMeta: "x"}
	long := "danger" + strings.Repeat(" and more", 300)
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": long}, Meta: meta}); err != nil {
		t.Logf("the client knows no tasks: %v", err)
	}
	get := func(meta sdk.Meta) *taskResult {
		t.Helper()
		got, err := sdk.CallCustomMethod[*taskParams, *taskResult](t.Context(), s, "tasks/get", &taskParams{ParamsBase: sdk.ParamsBase{Meta: meta}, TaskID: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	bustest.WaitUntil(t, "the question", func() bool { return get(meta).Status == "input_required" })
	if got := get(nil); got.Status != "working" || len(got.Requests) > 0 {
		t.Errorf("a client without forms got %+v", got)
	}
	if form, ok := get(meta).Requests["alice.x"].(*sdk.ElicitParams); !ok || !strings.HasPrefix(form.Message, "May echo run?\n  danger and") ||
		!strings.Contains(form.Message, "\n  (This is only the start. The whole call: stevedore approvals ls --session alice)\nWithout an answer before ") {
		t.Errorf("the form is %+v", form)
	}
	approve := sdk.InputResponseMap{"alice.x": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}}
	if _, err := sdk.CallCustomMethod[*updateParams, *taskResult](t.Context(), s, "tasks/update", &updateParams{TaskID: "x", Responses: approve}); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the result", func() bool { return get(meta).Status == "completed" })
	if got := text(t, get(meta).Result); got != long {
		t.Errorf("the result is %q", got)
	}
}

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call, or a call that an agent makes for it, may need a person's approval. A client that
// can show forms to its user gets the question: in revision 2026-07-28 as the result of its
// request, which it repeats with the answer; before, as a request of the server. For a task,
// the question is in the result of tasks/get, and tasks/update brings the answer.

const (
	// firstCheck and maxCheck are the pauses between two checks for approvals.
	firstCheck = 200 * time.Millisecond
	maxCheck   = 2 * time.Second
	// maxAsked is how much of the arguments a question shows, in bytes.
	maxAsked = 2000
)

// showsForms reports whether the client declared that it shows forms to its user.
func showsForms(meta mcp.Meta, s *mcp.ServerSession) bool {
	e := capabilitiesOf(meta, s).Elicitation
	return e != nil && (e.Form != nil || e.URL == nil)
}

// inputRequired is the result of a request that must be repeated with answers.
type inputRequired struct {
	mcp.ResultBase
	ResultType    string              `json:"resultType"`
	InputRequests mcp.InputRequestMap `json:"inputRequests"`
	// RequestState is the id of the call. A client can name only calls of its session.
	RequestState string `json:"requestState"`
}

// questions returns the forms for approvals, by the keys of their calls.
func questions(waiting []approvals.Approval) mcp.InputRequestMap {
	forms := mcp.InputRequestMap{}
	for _, a := range waiting {
		forms[questionKey(a)] = question(a)
	}
	return forms
}

func questionKey(a approvals.Approval) string { return a.Session + "." + a.ID }

func question(a approvals.Approval) *mcp.ElicitParams {
	// Indented, so that no argument looks like the rest of the question.
	args := "  " + strings.ReplaceAll(a.ArgsText(maxAsked, "stevedore approvals ls --session "+a.Session), "\n", "\n  ")
	return &mcp.ElicitParams{
		Mode: "form",
		Message: fmt.Sprintf("May %s run?\n%s\nWithout an answer before %s, it does not run.",
			a.Tool, args, a.Deadline.UTC().Format("2006-01-02 15:04 UTC")),
		RequestedSchema: json.RawMessage(`{"type":"object","required":["approve"],"properties":{` +
			`"approve":{"type":"boolean","title":"May it run?"},` +
			`"reason":{"type":"string","title":"Reason, for the model"}}}`),
	}
}

// answer stores the answers of a client to the approvals that its call waits for. Other keys
// have no effect, so a client approves only what it started. A form that the user dismissed
// is no answer.
func (c *client) answer(ctx context.Context, id string, responses mcp.InputResponseMap) error {
	if len(responses) == 0 {
		return nil
	}
	b := c.gateway.bus
	waiting, err := approvals.For(ctx, b, tools.CallKey{Session: c.session, ID: tools.TokenOf(id)})
	if err != nil {
		return err
	}
	for _, a := range waiting {
		form, ok := responses[questionKey(a)].(*mcp.ElicitResult)
		if !ok || form.Action != "accept" && form.Action != "decline" {
			continue
		}
		approve, _ := form.Content["approve"].(bool)
		reason, _ := form.Content["reason"].(string)
		answer := task.Answer{Approve: approve && form.Action == "accept", Reason: reason, By: "mcp:" + c.session}
		_, err := approvals.Answer(ctx, b, tools.CallKey{Session: a.Session, ID: a.ID}, answer)
		if code := tools.CodeOf(err); err != nil && code != tools.CodeInvalidArguments && code != tools.CodeNotFound {
			return err // otherwise another answer was earlier
		}
	}
	return nil
}

// watchApprovals looks for approvals that a call waits for, until ctx ends. It calls ask with
// those that it has not asked about.
func (c *client) watchApprovals(ctx context.Context, call tools.Call, ask func([]approvals.Approval)) {
	key, asked := tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()}, map[string]bool{}
	for pause := firstCheck; ; pause = min(2*pause, maxCheck) {
		if tools.Sleep(ctx, pause) != nil {
			return
		}
		waiting, err := approvals.For(ctx, c.gateway.bus, key)
		if err != nil {
			continue // the caller notices it too
		}
		var unasked []approvals.Approval
		for _, a := range waiting {
			if !asked[questionKey(a)] {
				asked[questionKey(a)] = true
				unasked = append(unasked, a)
			}
		}
		if len(unasked) > 0 {
			ask(unasked)
		}
	}
}

// approvalNeeded is the cause of the end of a wait: the client must ask its user.
type approvalNeeded []approvals.Approval

func (approvalNeeded) Error() string { return "the call waits for an approval" }

// askUser asks the user of a client while its call waits; end ends the wait if the client
// must repeat its request with the answer.
func (c *client) askUser(ctx context.Context, r *mcp.CallToolRequest, call tools.Call, end func(error)) {
	if !showsForms(r.Params.Meta, r.Session) {
		return
	}
	params := r.Session.InitializeParams()
	roundTrips := params == nil || params.ProtocolVersion >= wire.Stateless
	c.watchApprovals(ctx, call, func(waiting []approvals.Approval) {
		if roundTrips {
			var unasked []approvals.Approval
			for _, a := range waiting {
				if _, dismissed := r.Params.InputResponses[questionKey(a)]; !dismissed { // do not ask again and again
					unasked = append(unasked, a)
				}
			}
			if len(unasked) > 0 {
				end(approvalNeeded(unasked))
			}
			return
		}
		for _, a := range waiting {
			form, err := r.Session.Elicit(ctx, question(a))
			if err == nil {
				err = c.answer(ctx, call.ID, mcp.InputResponseMap{questionKey(a): form})
			}
			if err != nil {
				c.gateway.cfg.Log.Debug().Err(err).Str("call", call.IDToken()).Str("session", c.session).Msg("cannot ask the user of the MCP client for an approval")
			}
		}
	})
}

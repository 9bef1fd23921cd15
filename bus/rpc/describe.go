package rpc

import (
	"context"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
)

// endpoint is an endpoint of the service, with what "nats micro info" shows of it. That cuts
// values which are longer than a line.
type endpoint struct {
	name    string
	subject string // after <prefix>.rpc; each word in capitals stands for any token
	timeout time.Duration
	answer  func(context.Context, micro.Request) (any, error)

	request, response string // for the authors of clients
}

func (s *Service) endpoints() []endpoint {
	const call = `a call: {"args":{...}}; it gets a new id, or names its "id" and "session"`
	const identified = `a call: {"args":{...}}; if it was submitted before, it does not run again`
	const result = `the result, when the call ends: {"outcome","for_llm","is_error","artifact"}`
	const acceptance = `{"id","session","sequence","duplicate"} when the call is stored`
	return []endpoint{
		{callEndpoint, "call.QUEUE.TOOL", callTimeout, s.call, call, result},
		{"call-in-session", "call.QUEUE.TOOL.SESSION.CALL", callTimeout, s.call, identified, result},
		{"submit", "submit.QUEUE.TOOL", submitTimeout, s.submit, call, acceptance},
		{"submit-in-session", "submit.QUEUE.TOOL.SESSION.CALL", submitTimeout, s.submit, identified, acceptance},
		{"artifact", "artifact.SESSION.FUNCTION", readTimeout, s.artifact, `get, lines, grep, jq, sql, ...: arguments such as {"artifact_id","pattern"}`, "a part of the artifact; its field text is for models"},
		{"artifacts", "artifacts.FUNCTION", readTimeout, s.artifacts, `list: {"offset","limit"}`, "the artifacts of all sessions"},
		{"task", "task.SESSION.FUNCTION", readTimeout, s.task, `list; get, cancel: {"id"} of a call`, "the calls of the session, or where the call is"},
		{"approval", "approval.SESSION.FUNCTION", readTimeout, s.approval, `list; yes, no: {"id","by","reason"}`, "the calls that wait for an approval, or the stored answer"},
		{"approvals", "approvals.FUNCTION", readTimeout, s.approvals, "list", "the calls of all sessions that wait for an approval"},
		{"cron", "cron.SESSION.FUNCTION", readTimeout, s.cron, `list; add, get, update, remove, ...: a job {"name","every","tool","args"}`, "the jobs of the session, or the job"},
		{"tools", "tools.FUNCTION", readTimeout, s.tools, `ls, show: {"queue","tool"}`, "the tools that workers offer, with their JSON Schemas"},
	}
}

var anyToken = regexp.MustCompile(`[A-Z]+`)

// options returns the subject of an endpoint and its description.
func (e endpoint) options(b *bus.Bus) []micro.EndpointOpt {
	return []micro.EndpointOpt{
		micro.WithEndpointSubject(b.RPC(anyToken.ReplaceAllString(e.subject, "*"))),
		micro.WithEndpointMetadata(map[string]string{"subject": b.RPC(e.subject), "request": e.request, "response": e.response}),
	}
}

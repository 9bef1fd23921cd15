package rpc

import (
	"context"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
)

// endpoint is an endpoint of the service, with what "nats micro info" shows of it.
type endpoint struct {
	name    string
	subject string // after <prefix>.rpc; each word in capitals stands for any token
	timeout time.Duration
	answer  func(context.Context, micro.Request) (any, error)

	request, response string // for the authors of clients
}

func (s *Service) endpoints() []endpoint {
	const call = `JSON of the call, such as {"args":{"path":"go.mod"}}; a call without an id gets a new one`
	const identified = `JSON of the call, such as {"args":{"path":"go.mod"}}; the call CALL has one result, however often it is submitted`
	const result = `the result, when the call has ended: {"outcome","for_llm","is_error","artifact",...}`
	const acceptance = `{"id","session","tool","queue","sequence"} when the call is stored, and "duplicate":true if it was stored before`
	return []endpoint{
		{callEndpoint, "call.QUEUE.TOOL", callTimeout, s.call, call, result},
		{"call-in-session", "call.QUEUE.TOOL.SESSION.CALL", callTimeout, s.call, identified, result},
		{"submit", "submit.QUEUE.TOOL", submitTimeout, s.submit, call, acceptance},
		{"submit-in-session", "submit.QUEUE.TOOL.SESSION.CALL", submitTimeout, s.submit, identified, acceptance},
		{"artifact", "artifact.SESSION.FUNCTION", readTimeout, s.artifact,
			`FUNCTION get, lines, grep, jq, sql, query, info, ...: the arguments of the tool for it, such as {"artifact_id":"a1","pattern":"error"}`,
			"a page, the matches or a list, with the field text for models"},
		{"artifacts", "artifacts.FUNCTION", readTimeout, s.artifacts, `FUNCTION list: {"offset","limit"}`, "the artifacts of all sessions"},
		{"task", "task.SESSION.FUNCTION", readTimeout, s.task, `FUNCTION list; get or cancel: {"id"} of the call`, "where the call is, or those of the session"},
		{"approval", "approval.SESSION.FUNCTION", readTimeout, s.approval,
			`FUNCTION list; yes or no: {"id","by","reason"}`, "the calls that wait for an approval, or the stored answer"},
		{"approvals", "approvals.FUNCTION", readTimeout, s.approvals, "FUNCTION list: nothing", "the calls of all sessions that wait for an approval"},
		{"cron", "cron.SESSION.ACTION", readTimeout, s.cron,
			`ACTION list; add, get, update, remove, enable or disable: the fields of the job, such as {"name","every_seconds","tool","args"}`, "the job, or those of the session"},
		{"tools", "tools.FUNCTION", readTimeout, s.tools, `FUNCTION ls or show: {"queue","tool"}, both optional for ls`, "the tools that workers offer, with their JSON Schemas; the field text of show has all details"},
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

package rpc

import (
	"regexp"
	"strings"
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

	request, response string // for the authors of clients
	operations        []*Operation
}

// callEndpoint is the name of the endpoint for calls; see ServiceConfig.Stats.
const callEndpoint = "call"

func endpoints() []endpoint {
	const call = `a call: {"args":{...}}; it gets a new id, or names its "id" and "session"`
	const identified = `a call: {"args":{...}}; if it was submitted before, it does not run again`
	const result = `the result, when the call ends: {"outcome","for_llm","is_error","artifact"}`
	const acceptance = `{"id","session","sequence","duplicate"} when the call is stored`
	all := []endpoint{
		{callEndpoint, "call.QUEUE.TOOL", callTimeout, call, result, nil},
		{"call-in-session", "call.QUEUE.TOOL.SESSION.CALL", callTimeout, identified, result, nil},
		{"submit", "submit.QUEUE.TOOL", submitTimeout, call, acceptance, nil},
		{"submit-in-session", "submit.QUEUE.TOOL.SESSION.CALL", submitTimeout, identified, acceptance, nil},
		{"artifact", "artifact.SESSION.FUNCTION", readTimeout,
			`get, lines, grep, jq, sql, ...: arguments such as {"artifact_id","pattern"}`, "a part of the artifact; its field text is for models", nil},
		{"artifacts", "artifacts.FUNCTION", readTimeout, `list: {"offset","limit"}`, "the artifacts of all sessions", nil},
		{"task", "task.SESSION.FUNCTION", readTimeout, `list; get, cancel: {"id"} of a call`, "the calls of the session, or where the call is", nil},
		{"approval", "approval.SESSION.FUNCTION", readTimeout, `list; yes, no: {"id","by","reason"}`,
			"the calls that wait for an approval, or the stored answer", nil},
		{"approvals", "approvals.FUNCTION", readTimeout, "list", "the calls of all sessions that wait for an approval", nil},
		{"cron", "cron.SESSION.FUNCTION", readTimeout, `list; add, get, update, remove, ...: a job {"name","every","tool","args"}`,
			"the jobs of the session, or the job", nil},
		{"tools", "tools.FUNCTION", readTimeout, `ls, show: {"queue","tool"}`, "the tools that workers offer, with their JSON Schemas", nil},
	}
	for i, e := range all {
		for _, op := range Operations() {
			group, _ := strings.CutSuffix(e.subject, "FUNCTION")
			if op.Subject == e.subject || group != e.subject && strings.HasPrefix(op.Subject, group) {
				all[i].operations = append(all[i].operations, op)
			}
		}
	}
	return all
}

var anyToken = regexp.MustCompile(`[A-Z]+`)

// options returns the subject of an endpoint and its description.
func (e endpoint) options(b *bus.Bus) []micro.EndpointOpt {
	return []micro.EndpointOpt{
		micro.WithEndpointSubject(b.RPC(anyToken.ReplaceAllString(e.subject, "*"))),
		micro.WithEndpointMetadata(map[string]string{"subject": b.RPC(e.subject), "request": e.request, "response": e.response}),
	}
}

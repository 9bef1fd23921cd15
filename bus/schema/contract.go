package schema

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/remote"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Operation is one thing that a client or a remote tool does on a subject.
type Operation struct {
	// Name is unique; it is an identifier.
	Name string
	// Subject has parameters in braces. The first token is the prefix, except in the
	// operations of remote tools.
	Subject string
	Summary string
	// Receive is set if Stevedore sends the message. Otherwise it receives the message.
	Receive bool
	// Body is the name of a schema in Schemas; empty means no body. Answer is that of
	// the answer, if the message is a request.
	Body, Answer string
}

// Operations is the contract. The subjects that only workers use are not part of it:
// claim, offer, report, run, schedule, session, stats, tick and what they ask each other.
func Operations(s bus.Subjects) []Operation {
	const queue, tool, session, call, channel, chat = "{queue}", "{tool}", "{session}", "{call}", "{channel}", "{chat}"
	ops := []Operation{
		{"submitCall", s.Call(queue, tool, session, call), "Run a tool.", false, "Call", ""},
		{"submitRaw", s.Raw(queue, tool, session, call), "Submit the result of a tool that the client already ran.", false, "RawResult", ""},
		{"result", s.Result(session, call), "The result of a call, in the results stream.", true, "Result", ""},
		{"completion", s.Completion(session, call), "The completion of an async call, in the results stream.", true, "Result", ""},
		{"storedResult", s.Stored(s.Result(session, call)), "A result that was stored just now.", true, "Result", ""},
		{"storedCompletion", s.Stored(s.Completion(session, call)), "A completion that was stored just now.", true, "Result", ""},
		{"progress", s.Progress(session, call), "The progress of a running call. No stream stores it.", true, "Progress", ""},
		{"cancelled", s.Cancel(session, call), "The call is cancelled; for remote tools.", true, "", ""},
		{"notify", s.Notify(channel, chat), "Send the user of a chat a message.", false, "Notification", ""},
		{"notifyAny", s.NotifyAny(channel), "Send the user of a channel a message; only the body names the chat.", false, "Notification", ""},
		{"bridge", s.RPC("message", channel), "Hand in what a user of a channel wrote, or ask what to show of a notification.", false,
			"BridgeRequest", "BridgeAnswer"},
		{"draft", s.Draft(channel), "What a bridge shows of an answer that grows. No stream stores it.", true, "BridgeDraft", ""},
		{"deadLetter", s.Dead("{kind}", "{name}"), "A message that Stevedore stopped retrying.", true, "DeadLetter", ""},
		{"toolDefinition", "{subject}.definition", "Stevedore asks a remote tool for its definition.", true, "", "ToolDefinition"},
		{"toolCall", "{subject}", "Stevedore calls a remote tool. The answer may also be plain text.", true, "Call", "ToolAnswer"},
	}
	for _, op := range rpc.Operations() {
		if op.Subject == "" {
			continue
		}
		subject := s.RPC(inCapitals.ReplaceAllStringFunc(op.Subject, func(word string) string { return "{" + strings.ToLower(word) + "}" }))
		body := readRequests[op.Tool]
		if body == "" {
			body = nameOf(op.In)
		}
		ops = append(ops, Operation{op.Name, subject, op.Summary, false, body, nameOf(op.Out)})
	}
	return ops
}

var inCapitals = regexp.MustCompile(`[A-Z]+`)

// nameOf returns the name of the schema of a type. The types without one are the empty request and
// the answer that is a list or a record.
func nameOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for name, known := range types() {
		if known == t {
			return name
		}
	}
	if t.Kind() == reflect.Interface {
		return "Info"
	}
	return ""
}

// types are the Go types of the bodies that have no schema of a tool.
func types() map[string]reflect.Type {
	return map[string]reflect.Type{
		"Call":            reflect.TypeFor[tools.Call](),
		"RawResult":       reflect.TypeFor[tools.RawEvent](),
		"Result":          reflect.TypeFor[tools.ResultEvent](),
		"Progress":        reflect.TypeFor[tools.ProgressEvent](),
		"Notification":    reflect.TypeFor[channel.Notification](),
		"BridgeRequest":   reflect.TypeFor[channel.BridgeRequest](),
		"BridgeAnswer":    reflect.TypeFor[channel.BridgeAnswer](),
		"BridgeDraft":     reflect.TypeFor[channel.BridgeDraft](),
		"DeadLetter":      reflect.TypeFor[dead.Letter](),
		"Acceptance":      reflect.TypeFor[rpc.Acceptance](),
		"ToolQuery":       reflect.TypeFor[tools.OfferQuery](),
		"ToolList":        reflect.TypeFor[rpc.ToolList](),
		"TaskRequest":     reflect.TypeFor[rpc.TaskRequest](),
		"TaskList":        reflect.TypeFor[task.Listing](),
		"Task":            reflect.TypeFor[task.Task](),
		"ApprovalRequest": reflect.TypeFor[rpc.ApprovalRequest](),
		"ApprovalList":    reflect.TypeFor[rpc.ApprovalList](),
		"ApprovalAnswer":  reflect.TypeFor[rpc.ApprovalAnswer](),
		"Page":            reflect.TypeFor[offload.Page](),
		"ReadPage":        reflect.TypeFor[rpc.ReadPage](),
		"Lines":           reflect.TypeFor[offload.Lines](),
		"Grep":            reflect.TypeFor[offload.GrepResult](),
		"JQ":              reflect.TypeFor[offload.JQResult](),
		"SQL":             reflect.TypeFor[offload.SQLResult](),
		"ArtifactList":    reflect.TypeFor[offload.Listing](),
		"Record":          reflect.TypeFor[offload.Record](),
		"ArtifactRequest": reflect.TypeFor[rpc.ArtifactRequest](),
		"JobRequest":      reflect.TypeFor[rpc.CronRequest](),
		"JobQuery":        reflect.TypeFor[rpc.CronQuery](),
		"JobAnswer":       reflect.TypeFor[cron.Answer](),
		"ToolDefinition":  reflect.TypeFor[remote.Definition](),
		"ToolAnswer":      reflect.TypeFor[toolAnswer](),
		"Rejection":       reflect.TypeFor[rejection](),
	}
}

// readRequests are the requests that have the arguments of a tool.
var readRequests = map[string]string{
	offload.ToolGet: "GetRequest", offload.ToolLines: "LinesRequest", offload.ToolGrep: "GrepRequest",
	offload.ToolJQ: "JQRequest", offload.ToolSQL: "SQLRequest", offload.ToolQuery: "QueryRequest", offload.ToolInfo: "InfoRequest",
}

// toolAnswer is the answer of a remote tool.
type toolAnswer struct {
	ForLLM string `json:"for_llm"`
	tools.UserContent
	IsError bool `json:"is_error,omitempty"`
}

// rejection is the answer to a request that fails.
type rejection struct {
	Error tools.EventError `json:"error"`
}

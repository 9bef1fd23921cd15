package schema

import (
	"reflect"

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
		{"bridge", s.RPC("message", channel), "Hand in what a user of a channel wrote, or ask what to show of a notification.", false, "BridgeRequest", "BridgeAnswer"},
		{"draft", s.Draft(channel), "What a bridge shows of an answer that grows. No stream stores it.", true, "BridgeDraft", ""},
		{"deadLetter", s.Dead("{kind}", "{name}"), "A message that Stevedore stopped retrying.", true, "DeadLetter", ""},
		{"callAndWait", s.RPC("call", queue, tool, session, call), "Submit a call and wait for its result.", false, "Call", "Result"},
		{"callAndWaitShort", s.RPC("call", queue, tool), "Submit a call and wait for its result; only the body names the call.", false, "Call", "Result"},
		{"submit", s.RPC("submit", queue, tool, session, call), "Submit a call.", false, "Call", "Acceptance"},
		{"submitShort", s.RPC("submit", queue, tool), "Submit a call; only the body names it.", false, "Call", "Acceptance"},
		{"listTools", s.RPC("tools", "ls"), "List the tools of the workers.", false, "ToolQuery", "ToolList"},
		{"showTool", s.RPC("tools", "show"), "Describe one tool.", false, "ToolQuery", "ToolList"},
		{"listTasks", s.RPC("task", session, "list"), "List the calls of a session.", false, "TaskRequest", "TaskList"},
		{"getTask", s.RPC("task", session, "get"), "Get the state of a call.", false, "TaskRequest", "Task"},
		{"cancelTask", s.RPC("task", session, "cancel"), "Cancel a call.", false, "TaskRequest", "Task"},
		{"listApprovals", s.RPC("approval", session, "list"), "List the calls of a session that wait for a person's approval.", false, "ApprovalRequest", "ApprovalList"},
		{"listAllApprovals", s.RPC("approvals", "list"), "List the calls of all sessions that wait for a person's approval.", false, "", "ApprovalList"},
		{"approve", s.RPC("approval", session, "yes"), "Let a call run.", false, "ApprovalRequest", "ApprovalAnswer"},
		{"deny", s.RPC("approval", session, "no"), "End a call that needs an approval.", false, "ApprovalRequest", "ApprovalAnswer"},
		{"readArtifact", s.RPC("artifact", session, "get"), "Read characters of an artifact.", false, "GetRequest", "Page"},
		{"readArtifactLines", s.RPC("artifact", session, "lines"), "Read lines of an artifact.", false, "LinesRequest", "Lines"},
		{"grepArtifact", s.RPC("artifact", session, "grep"), "Search the lines of an artifact.", false, "GrepRequest", "Grep"},
		{"jqArtifact", s.RPC("artifact", session, "jq"), "Run a jq query on an artifact.", false, "JQRequest", "JQ"},
		{"sqlArtifacts", s.RPC("artifact", session, "sql"), "Run a SELECT on artifacts that are tables.", false, "SQLRequest", "SQL"},
		{"queryArtifacts", s.RPC("artifact", session, "query"), "List artifacts by their metadata.", false, "QueryRequest", "ArtifactList"},
		{"listAllArtifacts", s.RPC("artifacts", "list"), "List the artifacts of all sessions.", false, "QueryRequest", "ArtifactList"},
		{"artifactInfo", s.RPC("artifact", session, "info"), "List the offloaded results of a task, or get one record.", false, "InfoRequest", "Info"},
		{"readArtifactPage", s.RPC("artifact", session, "read"), "Read a larger page, for programs.", false, "GetRequest", "ReadPage"},
		{"artifactRecord", s.RPC("artifact", session, "record"), "Get the record of an artifact.", false, "ArtifactRequest", "Record"},
		{"removeArtifact", s.RPC("artifact", session, "rm"), "Remove an artifact.", false, "ArtifactRequest", "Record"},
		{"toolDefinition", "{subject}.definition", "Stevedore asks a remote tool for its definition.", true, "", "ToolDefinition"},
		{"toolCall", "{subject}", "Stevedore calls a remote tool. The answer may also be plain text.", true, "Call", "ToolAnswer"},
	}
	for _, action := range []string{cron.ActionAdd, cron.ActionList, cron.ActionGet, cron.ActionUpdate, cron.ActionRemove, cron.ActionEnable, cron.ActionDisable} {
		ops = append(ops, Operation{action + "Job", s.RPC("cron", session, action), "Manage jobs: " + action + ".", false, "JobRequest", "JobAnswer"})
	}
	return ops
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
		"ArtifactRequest": reflect.TypeFor[artifactRequest](),
		"JobRequest":      reflect.TypeFor[rpc.CronRequest](),
		"JobAnswer":       reflect.TypeFor[cron.Answer](),
		"ToolDefinition":  reflect.TypeFor[remote.Definition](),
		"ToolAnswer":      reflect.TypeFor[toolAnswer](),
		"Rejection":       reflect.TypeFor[rejection](),
	}
}

// readTools are the tools whose arguments are the bodies of requests.
var readTools = map[string]string{
	"GetRequest": offload.ToolGet, "LinesRequest": offload.ToolLines, "GrepRequest": offload.ToolGrep,
	"JQRequest": offload.ToolJQ, "SQLRequest": offload.ToolSQL, "QueryRequest": offload.ToolQuery,
}

// artifactRequest names an artifact.
type artifactRequest struct {
	ArtifactID string `json:"artifact_id"`
}

// toolAnswer is the answer of a remote tool.
type toolAnswer struct {
	ForLLM   string `json:"for_llm"`
	ForUser  string `json:"for_user,omitempty"`
	Markdown bool   `json:"markdown,omitempty"`
	IsError  bool   `json:"is_error,omitempty"`
}

// rejection is the answer to a request that fails.
type rejection struct {
	Error tools.EventError `json:"error"`
}

package schema

import (
	"reflect"

	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/remote"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

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

package integration

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/schema"
	"github.com/stevedore-bus/stevedore/offload"
)

// operation is one thing that a client or a remote tool does on a subject, whose parameters are in
// braces. Body and Answer are names of schemas; Answer is that of the answer, if the message is a request.
type operation struct{ Name, Subject, Body, Answer string }

// operations are the contract. The subjects that only workers use are not part of it; see
// internalSubjects.
var operations = []operation{
	{"submitCall", "stevedore.call.{queue}.{tool}.{session}.{call}", "Call", ""},
	{"submitRaw", "stevedore.raw.{queue}.{tool}.{session}.{call}", "RawResult", ""},
	{"result", "stevedore.result.{session}.{call}", "Result", ""},
	{"completion", "stevedore.completion.{session}.{call}", "Result", ""},
	{"storedResult", "stevedore.stored.result.{session}.{call}", "Result", ""},
	{"storedCompletion", "stevedore.stored.completion.{session}.{call}", "Result", ""},
	{"progress", "stevedore.progress.{session}.{call}", "Progress", ""},
	{"cancelled", "stevedore.cancel.{session}.{call}", "", ""},
	{"notify", "stevedore.notify.{channel}.{chat}", "Notification", ""},
	{"notifyAny", "stevedore.notify.{channel}", "Notification", ""},
	{"bridge", "stevedore.rpc.message.{channel}", "BridgeRequest", "BridgeAnswer"},
	{"draft", "stevedore.draft.{channel}", "BridgeDraft", ""},
	{"deadLetter", "stevedore.dead.{kind}.{name}", "DeadLetter", ""},
	{"toolDefinition", "{subject}.definition", "", "ToolDefinition"},
	{"toolCall", "{subject}", "Call", "ToolAnswer"},
	{"callAndWait", "stevedore.rpc.call.{queue}.{tool}.{session}.{call}", "Call", "Result"},
	{"callAndWaitShort", "stevedore.rpc.call.{queue}.{tool}", "Call", "Result"},
	{"submit", "stevedore.rpc.submit.{queue}.{tool}.{session}.{call}", "Call", "Acceptance"},
	{"submitShort", "stevedore.rpc.submit.{queue}.{tool}", "Call", "Acceptance"},
	{"listTools", "stevedore.rpc.tools.ls", "ToolQuery", "ToolList"},
	{"showTool", "stevedore.rpc.tools.show", "ToolQuery", "ToolList"},
	{"listTasks", "stevedore.rpc.task.{session}.list", "TaskRequest", "TaskList"},
	{"getTask", "stevedore.rpc.task.{session}.get", "TaskRequest", "Task"},
	{"cancelTask", "stevedore.rpc.task.{session}.cancel", "TaskRequest", "Task"},
	{"listApprovals", "stevedore.rpc.approval.{session}.list", "ApprovalRequest", "ApprovalList"},
	{"listAllApprovals", "stevedore.rpc.approvals.list", "", "ApprovalList"},
	{"approve", "stevedore.rpc.approval.{session}.yes", "ApprovalRequest", "ApprovalAnswer"},
	{"deny", "stevedore.rpc.approval.{session}.no", "ApprovalRequest", "ApprovalAnswer"},
	{"readArtifact", "stevedore.rpc.artifact.{session}.get", "GetRequest", "Page"},
	{"readArtifactLines", "stevedore.rpc.artifact.{session}.lines", "LinesRequest", "Lines"},
	{"grepArtifact", "stevedore.rpc.artifact.{session}.grep", "GrepRequest", "Grep"},
	{"jqArtifact", "stevedore.rpc.artifact.{session}.jq", "JQRequest", "JQ"},
	{"sqlArtifacts", "stevedore.rpc.artifact.{session}.sql", "SQLRequest", "SQL"},
	{"queryArtifacts", "stevedore.rpc.artifact.{session}.query", "QueryRequest", "ArtifactList"},
	{"listAllArtifacts", "stevedore.rpc.artifacts.list", "QueryRequest", "ArtifactList"},
	{"artifactInfo", "stevedore.rpc.artifact.{session}.info", "InfoRequest", "Info"},
	{"readArtifactPage", "stevedore.rpc.artifact.{session}.read", "GetRequest", "ReadPage"},
	{"artifactRecord", "stevedore.rpc.artifact.{session}.record", "ArtifactRequest", "Record"},
	{"removeArtifact", "stevedore.rpc.artifact.{session}.rm", "ArtifactRequest", "Record"},
	{"addJob", "stevedore.rpc.cron.{session}.add", "JobRequest", "JobAnswer"},
	{"listJob", "stevedore.rpc.cron.{session}.list", "JobQuery", "JobAnswer"},
	{"getJob", "stevedore.rpc.cron.{session}.get", "JobQuery", "JobAnswer"},
	{"updateJob", "stevedore.rpc.cron.{session}.update", "JobRequest", "JobAnswer"},
	{"removeJob", "stevedore.rpc.cron.{session}.remove", "JobRequest", "JobAnswer"},
	{"enableJob", "stevedore.rpc.cron.{session}.enable", "JobRequest", "JobAnswer"},
	{"disableJob", "stevedore.rpc.cron.{session}.disable", "JobRequest", "JobAnswer"},
}

// The contract, the tools of models and the service agree on the subject and the input of each operation
// that the workers offer.
func TestOperationsAgree(t *testing.T) {
	doc, err := schema.Document()
	if err != nil {
		t.Fatal(err)
	}
	contract := map[string]operation{}
	for _, op := range operations {
		contract[op.Name] = op
	}
	arguments := map[string][]string{}
	for _, tool := range offload.NewReader(nil, offload.ReaderConfig{}).Tools() {
		for name := range tool.Definition().Parameters.Properties {
			arguments[tool.Definition().Name] = append(arguments[tool.Definition().Name], name)
		}
	}
	offered := map[string]bool{"bridge": true} // a process that receives answers it
	for _, op := range rpc.Operations() {
		if op.Subject == "" { // no worker offers it
			continue
		}
		offered[op.Name] = true
		got := contract[op.Name]
		want := "stevedore.rpc." + regexp.MustCompile("[A-Z]+").ReplaceAllStringFunc(op.Subject, func(w string) string { return "{" + strings.ToLower(w) + "}" })
		if got.Subject != want {
			t.Errorf("%s: the contract has the subject %q, want %s", op.Name, got.Subject, want)
		}
		inputs := jsonNames(op.In)
		if body := doc.Defs[got.Body]; body != nil {
			for name := range body.Properties {
				if !slices.Contains(inputs, name) {
					t.Errorf("%s: the schema %s has %s, which the operation does not read", op.Name, got.Body, name)
				}
			}
		}
		if answer, out := doc.Defs[got.Answer], structOf(op.Out); answer != nil && out != nil {
			outputs, described := jsonNames(out), slices.Sorted(maps.Keys(answer.Properties))
			if !slices.Contains(outputs, "text") { // each answer with a form for models has it
				described = slices.DeleteFunc(described, func(name string) bool { return name == "text" })
			}
			if !slices.Equal(outputs, described) {
				t.Errorf("%s: it answers %q, and the schema %s has %q", op.Name, outputs, got.Answer, described)
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
	for _, op := range operations {
		if strings.HasPrefix(op.Subject, "stevedore.rpc.") && !offered[op.Name] {
			t.Errorf("%s: no worker offers it", op.Name)
		}
	}
}

// structOf returns the struct that a type is or points to, or nil.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// jsonNames returns the names of the fields of a struct in JSON, sorted.
func jsonNames(t reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

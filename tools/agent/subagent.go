package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

type taskArgs struct {
	Task     string   `json:"task" jsonschema:"the task, with all information that it needs"`
	Label    string   `json:"label,omitempty" jsonschema:"a short name of the task, for the report"`
	System   string   `json:"system,omitempty" jsonschema:"the system prompt; default that of the worker"`
	Tools    []string `json:"tools,omitempty" jsonschema:"names of the tools that the agent may use; default all of yours"`
	MaxTurns int      `json:"max_turns,omitempty" jsonschema:"the maximum number of the agent's turns"`
	Limits   *Limits  `json:"grant,omitempty" jsonschema:"set by the loop that starts a sub-agent"`
}

// limitsArg is the argument with a sub-agent's limits. Only the loop sets it;
// models do not see it.
const limitsArg = "grant"

// withoutLimitsArg returns a tool's definition for models.
func withoutLimitsArg(def tools.Definition) tools.Definition {
	if !startsSubagent(def.Name) || def.Parameters == nil {
		return def
	}
	schema := *def.Parameters
	schema.Properties = maps.Clone(schema.Properties)
	delete(schema.Properties, limitsArg)
	schema.PropertyOrder = slices.DeleteFunc(slices.Clone(schema.PropertyOrder), func(name string) bool { return name == limitsArg })
	def.Parameters = &schema
	return def
}

func startsSubagent(tool string) bool { return tool == SubagentTool || tool == SpawnTool }

// SubagentSession returns the session of a subagent call's conversation. It
// follows from the call.
func SubagentSession(call tools.Call) string {
	return fmt.Sprintf("sub/%s/%s", call.SessionToken(), call.IDToken())
}

// ChildCall returns the subagent call that a call of an agent becomes. ok is false if it starts no sub-agent.
func ChildCall(call tools.Call) (child tools.Call, ok bool) {
	if call.Tool != SpawnTool {
		return call, call.Tool == SubagentTool
	}
	call.ID, call.Tool, call.Action = tools.Token(call.ID+"/"+SubagentTool), SubagentTool, tools.ActionAgent
	call.Args, call.Delivery = changeArgs(call.Args, func(fields map[string]json.RawMessage) { delete(fields, "delivery") }), "" // subagent has none
	return call, true
}

// subagentName returns the name of the sub-agent with a number, from 1, of the SubagentSessions of
// an agent with a name.
func subagentName(parent string, number int) string { return fmt.Sprintf("%s/%d", parent, number) }

// ParseSubagentName is the inverse of subagentName.
func ParseSubagentName(name string) (parent string, number int, ok bool) {
	at := strings.LastIndexByte(name, '/')
	if at <= 0 {
		return "", 0, false
	}
	number, err := strconv.Atoi(name[at+1:])
	return name[:at], number, err == nil && number > 0
}

// ParentSession returns the token of the session that started a sub-agent, if session is that
// of one.
func ParentSession(session string) (token string, ok bool) {
	path := strings.Split(session, "/")
	if len(path) != 3 || path[0] != "sub" {
		return "", false
	}
	return path[1], true
}

// RunKey returns the key of the call that started a run of a conversation (a token). The call of a
// sub-agent, as the log has it, is in the session of the agent that made it.
func RunKey(session, run string, call *tools.Call) tools.CallKey {
	if call != nil && call.Tool == SubagentTool {
		session, _ = ParentSession(call.Session)
	}
	return tools.CallKey{Session: session, ID: run}
}

// DepthOf returns the depth at which a subagent call runs.
func DepthOf(call tools.Call) int {
	var in struct {
		Limits Limits `json:"grant"`
	}
	if json.Unmarshal(call.Args, &in) != nil {
		return 0
	}
	return max(in.Limits.Depth, 0)
}

// runSubagent executes a call of the subagent tool.
func (c ToolsConfig) runSubagent(ctx context.Context, call tools.Call, in taskArgs) *tools.Result {
	if strings.TrimSpace(in.Task) == "" {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the task is empty"))
	}
	limits := c.Config.Limits
	if in.Limits != nil {
		limits = limits.cap(*in.Limits)
	}
	limits.MaxTurns = smallerLimit(limits.MaxTurns, in.MaxTurns)
	c.Config.ToolOutput = OutputNone // the user gets the report
	a, err := c.newAgent(limits, in.System, in.Tools)
	call.Session = SubagentSession(call)
	if err != nil && !c.goesOn(ctx, a, call.SessionToken(), call.IDToken()) {
		return tools.Failure(err)
	}
	o, err := a.Run(ctx, call, Text(in.Task))
	if err != nil {
		return tools.Failure(err)
	}
	return report(o, cmp.Or(in.Label, "(unnamed)"))
}

// report returns the result of a subagent call.
func report(o Outcome, label string) *tools.Result {
	var used []string
	for _, name := range slices.Sorted(maps.Keys(o.Tools)) {
		used = append(used, fmt.Sprintf("%s %dx", name, o.Tools[name]))
	}
	details := fmt.Sprintf("Label: %s\nTurns: %d\nTools used: %s\nTokens: %d in, %d out\n",
		label, o.Turns, cmp.Or(strings.Join(used, ", "), "none"), o.Usage.Input, o.Usage.Output)
	if o.SubagentTokens > 0 {
		details += fmt.Sprintf("Tokens of its own sub-agents: %d\n", o.SubagentTokens)
	}
	if err := o.Err(); err != nil {
		res := tools.Failure(err)
		res.ForLLM = fmt.Sprintf("Subagent task not completed: %s\n%sLast text:\n%s", err, details, o.Reply)
		res.ForUser = summary(fmt.Sprintf("The task %s was not completed: %s", label, err))
		if o.Reason == Refused && o.Reply != "" {
			res.ForUser += "\n" + summary(o.Reply)
		}
		return res
	}
	res := tools.NewToolResult(fmt.Sprintf("Subagent task completed.\n%sResult:\n%s", details, cmp.Or(o.Reply, noReply)))
	res.ForUser, res.Markdown = summary(o.Reply), true
	return res
}

// maxSummary is how much of a report the user gets, in characters.
const maxSummary = 500

func summary(text string) string {
	if utf8.RuneCountInString(text) <= maxSummary {
		return text
	}
	return string([]rune(text)[:maxSummary]) + "..."
}

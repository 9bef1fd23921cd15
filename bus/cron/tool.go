package cron

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// ToolConfig configures the cron tool. With the zero value, jobs can only send
// messages.
type ToolConfig struct {
	// PromptTool is the tool that receives a job's prompt, such as "subagent",
	// PromptArg is its argument, such as "task", and PromptQueue is its queue.
	// Without a PromptTool, jobs have no prompts.
	PromptTool, PromptArg, PromptQueue string
}

type toolArgs struct {
	Action       string `json:"action" jsonschema:"what to do"`
	Name         string `json:"name,omitempty" jsonschema:"the job's name, of the form [A-Za-z0-9_-]{1,64} and not beginning with -; required except for list"`
	Message      string `json:"message,omitempty" jsonschema:"for add and update: the text to send to the user each time"`
	Prompt       string `json:"prompt,omitempty" jsonschema:"for add and update: the prompt for an agent each time; give this or message"`
	At           string `json:"at,omitempty" jsonschema:"run once, at this time: RFC 3339, such as 2026-01-31T09:00:00+01:00"`
	InSeconds    int64  `json:"in_seconds,omitempty" jsonschema:"run once, this number of seconds from now"`
	EverySeconds int64  `json:"every_seconds,omitempty" jsonschema:"run repeatedly at this interval"`
	Cron         string `json:"cron,omitempty" jsonschema:"run by a cron expression of 5 fields (minute hour day month weekday), such as 30 9 * * 1-5"`
	TimeZone     string `json:"time_zone,omitempty" jsonschema:"the IANA time zone of the cron expression, such as Europe/Berlin; default UTC"`
	After        string `json:"after,omitempty" jsonschema:"for list: continue after this job; the list before names it if there are more"`
}

// maxListChars leaves room for the line that names the next page: a model reads at most
// 15,000 characters at once.
const maxListChars = 14_800

// Tool returns the cron tool. A session can see and change only its own jobs. Their
// notifications go to the channel of the call that added them.
//
// Jobs send messages or prompt an agent. They call no other tools, because a caller
// of this tool may not be allowed to use those.
func (js *Jobs) Tool(cfg ToolConfig) tools.Tool {
	t := &tool{jobs: js, cfg: cfg}
	cron := tools.MustTool("cron",
		"Keep jobs that run at certain times: reminders and recurring work. Actions: add, list, get, update, remove, enable, disable.",
		func(ctx context.Context, call tools.Call, args toolArgs) *tools.Result {
			text, err := t.run(ctx, call, args)
			if err != nil {
				return tools.Failure(&tools.Error{Code: tools.CodeOf(err), Message: "cron: " + err.Error()})
			}
			return tools.SilentResult(text)
		}).WithOwnSchema()
	if schema := cron.Definition().Parameters.Properties; schema != nil {
		schema["action"].Enum = []any{ActionAdd, ActionList, ActionGet, ActionUpdate, ActionRemove, ActionEnable, ActionDisable}
		if cfg.PromptTool == "" {
			delete(schema, "prompt")
		}
		for _, seconds := range []string{"in_seconds", "every_seconds"} {
			schema[seconds].Minimum, schema[seconds].Maximum = new(1.0), new(10*366*24*3600.0)
		}
	}
	return cron.WithEffect(tools.Keyed)
}

type tool struct {
	jobs *Jobs
	cfg  ToolConfig
}

func (t *tool) run(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	r, err := t.request(args)
	if err != nil {
		return "", err
	}
	key := ""
	if args.Action == ActionAdd {
		if r.Tool == "" {
			what := "a message or a prompt"
			if t.cfg.PromptTool == "" {
				what = "a message"
			}
			return "", tools.Errorf(tools.CodeInvalidArguments, "the job has nothing to do; give %s", what)
		}
		r.Channel, r.ChatID = call.Channel, call.ChatID
	}
	if args.Action == ActionAdd || args.Action == ActionUpdate { // an earlier delivery of this call may have done it
		key = fmt.Sprintf("%s.%s.%s", call.SessionToken(), call.IDToken(), call.Digest())
	}
	answer, err := t.jobs.Do(ctx, Caller{Session: call.Session}, key, r)
	return answer.Text(), err
}

// request returns the request of a call.
func (t *tool) request(args toolArgs) (r Request, err error) {
	r = Request{Action: args.Action, Name: args.Name, At: args.At, Cron: args.Cron, TimeZone: args.TimeZone, After: args.After, maxChars: maxListChars}
	if args.EverySeconds > 0 {
		r.Every = fmt.Sprintf("%ds", args.EverySeconds)
	}
	switch {
	case args.InSeconds > 0 && r.At != "":
		return r, tools.Errorf(tools.CodeInvalidArguments, "give exactly one of at, in_seconds, every_seconds and cron")
	case args.InSeconds > 0:
		r.At = fmt.Sprintf("%ds", args.InSeconds)
	}
	text := ""
	switch {
	case args.Message != "" && args.Prompt != "":
		return r, tools.Errorf(tools.CodeInvalidArguments, "give a message or a prompt, not both")
	case args.Message != "":
		r.Tool, r.Queue, text = "message", bus.DefaultQueue, args.Message
	case args.Prompt != "":
		r.Tool, r.Queue, text = t.cfg.PromptTool, t.cfg.PromptQueue, args.Prompt
	default:
		return r, nil
	}
	argument := map[string]string{"message": "content", t.cfg.PromptTool: t.cfg.PromptArg}[r.Tool]
	body, err := bus.Encode(text)
	r.Args = map[string]json.RawMessage{argument: body}
	return r, err
}

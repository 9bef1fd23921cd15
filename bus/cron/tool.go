package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

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
}

// Tool returns the cron tool. A session can see and change only its own jobs. Their
// notifications go to the channel of the call that added them.
//
// Jobs send messages or prompt an agent. They call no other tools, because a caller
// of this tool may not be allowed to use those.
func (js *Jobs) Tool(cfg ToolConfig) (tools.Tool, error) {
	t := &tool{jobs: js, cfg: cfg}
	cron, err := tools.NewTool("cron",
		"Keep jobs that run at certain times: reminders and recurring work. Actions: add, list, get, update, remove, enable, disable.",
		func(ctx context.Context, call tools.Call, args toolArgs) *tools.Result {
			text, err := t.run(ctx, call, args)
			if err != nil {
				return tools.Failure(&tools.Error{Code: tools.CodeOf(err), Message: "cron: " + err.Error()})
			}
			return tools.SilentResult(text)
		})
	if err != nil {
		return nil, err
	}
	if schema := cron.Definition().Parameters.Properties; schema != nil {
		schema["action"].Enum = []any{ActionAdd, ActionList, ActionGet, ActionUpdate, ActionRemove, ActionEnable, ActionDisable}
		if cfg.PromptTool == "" {
			delete(schema, "prompt")
		}
		schema["in_seconds"].Minimum, schema["every_seconds"].Minimum = new(1.0), new(1.0)
	}
	return cron.WithEffect(tools.Keyed), nil
}

type tool struct {
	jobs *Jobs
	cfg  ToolConfig
}

func (t *tool) run(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	var (
		by  = Caller{Session: call.Session}
		e   Entry
		err error
	)
	switch args.Action {
	case ActionAdd:
		e, err = t.add(ctx, by, call, args)
	case ActionList:
		return t.list(ctx, by)
	case ActionGet:
		return t.get(ctx, by, args.Name)
	case ActionUpdate:
		e, err = t.jobs.Update(ctx, by, args.Name, func(j *Job) error { return t.apply(j, args) })
	case ActionEnable:
		e, err = t.jobs.Enable(ctx, by, args.Name)
	case ActionDisable:
		e, err = t.jobs.Disable(ctx, by, args.Name)
	case ActionRemove:
		return "Cron job removed: " + args.Name, t.jobs.Remove(ctx, by, args.Name)
	}
	done := pastTense(args.Action)
	if e.Unchanged {
		done = "unchanged, because the request changes nothing"
	}
	return fmt.Sprintf("Cron job %s: %s\n%s", done, e.Name, describe(e)), err
}

func (t *tool) add(ctx context.Context, by Caller, call tools.Call, args toolArgs) (Entry, error) {
	j := Job{Name: args.Name, Channel: call.Channel, ChatID: call.ChatID}
	if err := t.apply(&j, args); err != nil {
		return Entry{}, err
	}
	if j.Tool == "" {
		orPrompt := ""
		if t.cfg.PromptTool != "" {
			orPrompt = " or a prompt"
		}
		return Entry{}, tools.Errorf(tools.CodeInvalidArguments, "the job has nothing to do; give a message%s", orPrompt)
	}
	// An earlier delivery of this call may have added the job.
	j.Key = fmt.Sprintf("%s.%s.%s", call.SessionToken(), call.IDToken(), call.Digest())
	return t.jobs.Add(ctx, by, j)
}

func (t *tool) list(ctx context.Context, by Caller) (string, error) {
	var lines []string
	for e, err := range t.jobs.List(ctx, by) {
		if err != nil {
			return "", err
		}
		lines = append(lines, "- "+e.Name+": "+describe(e))
	}
	if len(lines) == 0 {
		return "There are no cron jobs.", nil
	}
	return fmt.Sprintf("%d cron jobs:\n%s", len(lines), strings.Join(lines, "\n")), nil
}

func (t *tool) get(ctx context.Context, by Caller, name string) (string, error) {
	e, err := t.jobs.Get(ctx, by, name)
	lines := []string{fmt.Sprintf("Cron job %s: %s", e.Name, describe(e))}
	for _, at := range e.Upcoming(3) {
		lines = append(lines, "Upcoming: "+at.Format(time.RFC3339))
	}
	if text, ok := onlyText(e.Args); ok && len(text) > maxShownText {
		lines = append(lines, "Its whole text:", text)
	}
	return strings.Join(lines, "\n"), err
}

// apply applies args to j.
func (t *tool) apply(j *Job, args toolArgs) error {
	times := 0
	for _, given := range []bool{args.At != "", args.InSeconds != 0, args.EverySeconds != 0, args.Cron != ""} {
		if given {
			times++
		}
	}
	const year = 366 * 24 * 3600
	switch {
	case times > 1 || times == 0 && j.Tool == "":
		return tools.Errorf(tools.CodeInvalidArguments, "give exactly one of at, in_seconds, every_seconds and cron")
	case args.InSeconds > 10*year, args.EverySeconds > 10*year:
		return tools.Errorf(tools.CodeInvalidArguments, "in_seconds and every_seconds must not exceed ten years")
	case args.Message != "" && args.Prompt != "":
		return tools.Errorf(tools.CodeInvalidArguments, "give a message or a prompt, not both")
	}
	if times == 1 {
		j.At, j.Every, j.Cron, j.TimeZone = time.Time{}, time.Duration(args.EverySeconds)*time.Second, args.Cron, ""
	}
	switch {
	case args.At != "":
		at, err := time.Parse(time.RFC3339, args.At)
		if err != nil {
			return tools.Errorf(tools.CodeInvalidArguments, "at %q: want a time such as 2026-01-31T09:00:00+01:00", tools.Excerpt(args.At, 80))
		}
		j.At = at.UTC()
	case args.InSeconds != 0:
		// Round up; otherwise one second from now passes before the job is added.
		j.At = time.Now().UTC().Add(time.Duration(args.InSeconds+1) * time.Second).Truncate(time.Second)
	}
	if args.TimeZone != "" {
		j.TimeZone = args.TimeZone
	}
	var err error
	switch {
	case args.Message != "":
		j.Tool, j.Queue = "message", ""
		j.Args, err = bus.Encode(map[string]string{"content": args.Message})
	case args.Prompt != "":
		j.Tool, j.Queue = t.cfg.PromptTool, t.cfg.PromptQueue
		j.Args, err = bus.Encode(map[string]string{t.cfg.PromptArg: args.Prompt})
	}
	return err
}

// describe describes the times, the call and the state of a job in one line.
func describe(e Entry) string {
	when := "once at " + e.At.Format(time.RFC3339)
	switch {
	case e.Every > 0:
		when = e.When()
	case e.Cron != "":
		when = fmt.Sprintf("%q in %s", e.Cron, cmp.Or(e.TimeZone, "UTC"))
	}
	what := e.Tool
	if text, ok := onlyText(e.Args); ok {
		what = fmt.Sprintf("%s %q", e.Tool, tools.Excerpt(text, maxShownText))
	}
	next := "next run " + e.Next.Format(time.RFC3339)
	switch {
	case e.Disabled:
		next = "disabled"
	case e.Ended:
		next = "ended"
	case e.Next.IsZero():
		next = "no further run"
	}
	if e.LastRun != nil {
		next += "; last run " + e.lastRun()
	}
	return fmt.Sprintf("%s; %s; %s", when, what, next)
}

// maxShownText is how much of a message or a prompt a line shows, in bytes.
const maxShownText = 100

// onlyText returns the only argument of a call, if it is a text.
func onlyText(data json.RawMessage) (text string, ok bool) {
	var args map[string]any
	if json.Unmarshal(data, &args) == nil && len(args) == 1 {
		for _, v := range args {
			text, ok = v.(string)
		}
	}
	return text, ok
}

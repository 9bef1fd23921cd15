package cron

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// ToolConfig says what the jobs of the tool may do. The zero value lets them
// send messages.
type ToolConfig struct {
	// PromptTool is the tool that a job's prompt is given to, such as
	// "subagent", PromptArg the argument that takes it, such as "task", and
	// PromptQueue the queue where that tool is served; empty is the default one.
	// Without a PromptTool jobs have no prompts.
	PromptTool, PromptArg, PromptQueue string
}

type toolArgs struct {
	Action       string `json:"action" jsonschema:"what to do"`
	Name         string `json:"name,omitempty" jsonschema:"the job's name, of the form [A-Za-z0-9_-]{1,64} and not beginning with -; all actions but list want it"`
	Message      string `json:"message,omitempty" jsonschema:"for add and update: text that the user is sent each time"`
	Prompt       string `json:"prompt,omitempty" jsonschema:"for add and update: what an agent is asked each time; give this or message"`
	At           string `json:"at,omitempty" jsonschema:"run once, at this time: RFC 3339, such as 2026-01-31T09:00:00+01:00"`
	InSeconds    int64  `json:"in_seconds,omitempty" jsonschema:"run once, so many seconds from now"`
	EverySeconds int64  `json:"every_seconds,omitempty" jsonschema:"run again and again, at this interval"`
	Cron         string `json:"cron,omitempty" jsonschema:"run by a cron expression of 5 fields (minute hour day month weekday), such as 30 9 * * 1-5"`
	TimeZone     string `json:"time_zone,omitempty" jsonschema:"the IANA time zone of the cron expression, such as Europe/Berlin; default UTC"`
}

// Tool returns the cron tool. A session sees and changes its own jobs only; what
// a job has to tell goes to where it was added.
//
// Jobs send messages or ask an agent; they call no other tools, because whoever
// may use this tool need not be allowed to use those.
func (js *Jobs) Tool(cfg ToolConfig) (tools.Tool, error) {
	t := &tool{jobs: js, cfg: cfg}
	actions := map[string]func(context.Context, tools.Call, toolArgs) (string, error){
		"add": t.add, "list": t.list, "get": t.get, "update": t.update, "remove": t.remove, "enable": t.enable, "disable": t.disable,
	}
	made, err := tools.NewTool("cron",
		"Keep jobs that run at certain times: reminders and recurring work. Actions: add, list, get, update, remove, enable, disable.",
		func(ctx context.Context, call tools.Call, args toolArgs) *tools.Result {
			text, err := actions[args.Action](ctx, call, args)
			if err != nil {
				return failure(err)
			}
			return tools.SilentResult(text)
		})
	if err != nil {
		return nil, err
	}
	if schema := made.Definition().Parameters.Properties; schema != nil {
		schema["action"].Enum = []any{"add", "list", "get", "update", "remove", "enable", "disable"}
		if cfg.PromptTool == "" {
			delete(schema, "prompt")
		}
		schema["in_seconds"].Minimum, schema["every_seconds"].Minimum = new(1.0), new(1.0)
	}
	return made.WithEffect(tools.Keyed), nil
}

type tool struct {
	jobs *Jobs
	cfg  ToolConfig
}

func failure(err error) *tools.Result {
	return tools.Failure(&tools.Error{Code: tools.CodeOf(err), Message: "cron: " + err.Error()})
}

func by(call tools.Call) Caller { return Caller{Session: call.Session} }

func (t *tool) add(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	j := Job{Name: args.Name, Channel: call.Channel, ChatID: call.ChatID}
	if err := t.apply(&j, args); err != nil {
		return "", err
	}
	if j.Tool == "" {
		return "", tools.Errorf(tools.CodeInvalidArguments, "the job has nothing to do; give a message%s", t.orPrompt())
	}
	// The call may have run before and died: then this is its job.
	j.Key = fmt.Sprintf("%s.%s.%s", call.SessionToken(), call.IDToken(), call.Digest())
	e, err := t.jobs.Add(ctx, by(call), j)
	if err != nil {
		return "", err
	}
	return "Cron job added: " + e.Name + "\n" + describe(e), nil
}

func (t *tool) list(ctx context.Context, call tools.Call, _ toolArgs) (string, error) {
	var lines []string
	for e, err := range t.jobs.List(ctx, by(call)) {
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

func (t *tool) get(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	e, err := t.jobs.Get(ctx, by(call), args.Name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("Cron job %s: %s", e.Name, describe(e)))
	for _, at := range e.Upcoming(3) {
		text.WriteString("\nUpcoming: " + at.Format(time.RFC3339))
	}
	return text.String(), nil
}

func (t *tool) update(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	e, err := t.jobs.Update(ctx, by(call), args.Name, func(j *Job) error { return t.apply(j, args) })
	return done("updated", e, err)
}

func (t *tool) enable(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	e, err := t.jobs.Enable(ctx, by(call), args.Name)
	return done("enabled", e, err)
}

func (t *tool) disable(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	e, err := t.jobs.Disable(ctx, by(call), args.Name)
	return done("disabled", e, err)
}

func (t *tool) remove(ctx context.Context, call tools.Call, args toolArgs) (string, error) {
	if err := t.jobs.Remove(ctx, by(call), args.Name); err != nil {
		return "", err
	}
	return "Cron job removed: " + args.Name, nil
}

func done(what string, e Entry, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Cron job %s: %s\n%s", what, e.Name, describe(e)), nil
}

// apply writes what args say into j.
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
		return tools.Errorf(tools.CodeInvalidArguments, "in_seconds and every_seconds are ten years at most")
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
		// Upwards, or a second from now would be over before it is added.
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

func (t *tool) orPrompt() string {
	if t.cfg.PromptTool == "" {
		return ""
	}
	return " or a prompt"
}

// describe tells in a line when a job runs and what it does.
func describe(e Entry) string {
	var when string
	switch {
	case e.Every > 0:
		when = e.When()
	case e.Cron != "":
		when = fmt.Sprintf("%q in %s", e.Cron, zone(e.TimeZone))
	default:
		when = "once at " + e.At.Format(time.RFC3339)
	}
	var what strings.Builder
	what.WriteString(e.Tool)
	var args map[string]any
	if json.Unmarshal(e.Args, &args) == nil && len(args) == 1 {
		for _, v := range args {
			if text, ok := v.(string); ok {
				what.WriteString(fmt.Sprintf(" %q", tools.Excerpt(text, 100)))
			}
		}
	}
	next := "disabled"
	switch {
	case e.Disabled:
	case e.Ended:
		next = "ended"
	case e.Next.IsZero():
		next = "no further run"
	default:
		next = "next run " + e.Next.Format(time.RFC3339)
	}
	if e.LastRun != nil {
		next += "; last run " + e.lastRun()
	}
	return fmt.Sprintf("%s; %s; %s", when, what.String(), next)
}

func zone(name string) string {
	if name == "" {
		return "UTC"
	}
	return name
}

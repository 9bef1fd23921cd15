package cron

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Answer is the response to a Request.
type Answer struct {
	Action string `json:"action"`
	Name   string `json:"name,omitempty"`
	// Job is the current state; nil for a list and after a removal.
	Job *Entry `json:"job,omitempty"`
	// Upcoming are its next runs.
	Upcoming []time.Time `json:"upcoming,omitempty"`
	// Jobs is the response to ActionList.
	Jobs []Entry `json:"jobs,omitzero"`
	// Next is the Request.After of the next page, if there are more jobs.
	Next string `json:"next,omitempty"`
}

// Text returns the answer as text for users, with a line for each job.
func (a Answer) Text() string {
	var b strings.Builder
	switch {
	case a.Action == ActionList:
		several := slices.ContainsFunc(a.Jobs, func(e Entry) bool { return e.Kind == "" && e.Session != a.Jobs[0].Session })
		for _, e := range a.Jobs {
			note := ""
			switch {
			case e.Kind != "":
				note = " (" + e.Kind + ")"
			case several:
				note = " (session " + tools.EscapeLine(e.Session) + ")"
			}
			fmt.Fprintf(&b, "%s%s: %s\n", e.Name, note, e.line())
		}
		if len(a.Jobs) == 0 {
			return "There are no cron jobs."
		}
		if a.Next != "" {
			fmt.Fprintf(&b, "(There are more: continue after %s.)\n", a.Next)
		}
	case a.Job == nil:
		fmt.Fprintf(&b, "Cron job %s: %s\n", pastTense(a.Action), a.Name)
	case a.Job.Unchanged:
		fmt.Fprintf(&b, "Cron job unchanged: %s (the request changes nothing)\n%s\n", a.Name, a.Job.line())
		a.upcoming(&b)
	case pastTense(a.Action) != "":
		fmt.Fprintf(&b, "Cron job %s: %s\n%s\n", pastTense(a.Action), a.Name, a.Job.line())
		a.upcoming(&b)
	default:
		a.Job.details(&b)
		a.upcoming(&b)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pastTense returns the past tense of an action that changes a job, otherwise "".
func pastTense(action string) string {
	switch action {
	case ActionAdd:
		return "added"
	case ActionRemove, ActionUpdate, ActionEnable, ActionDisable:
		return action + "d"
	}
	return ""
}

func (a Answer) upcoming(b *strings.Builder) {
	for i, t := range a.Upcoming {
		if i == 0 {
			b.WriteString("Next runs:\n")
		}
		fmt.Fprintf(b, "  %s\n", a.Job.inZone(t).Format("Mon "+time.RFC3339))
	}
}

// maxShownText is how much of a message, a prompt or a command a line shows, in bytes.
const maxShownText = 100

// CallText is the tool of a job, with the only argument of its call if that is a text, for one line.
func (e Entry) CallText() string {
	var args map[string]any
	if json.Unmarshal(e.Args, &args) == nil && len(args) == 1 {
		for _, value := range args {
			if text, ok := value.(string); ok {
				return fmt.Sprintf("%s %q", e.Tool, tools.Excerpt(text, maxShownText))
			}
		}
	}
	return e.Tool
}

// Idle says why a job has no next run; empty if it has one.
func (e Entry) Idle() string {
	switch {
	case e.Disabled:
		return "disabled"
	case e.Ended && e.LastRun == nil:
		return "due, waits for a worker"
	case e.Ended:
		return "ended"
	}
	return ""
}

// line describes a job in one line.
func (e Entry) line() string {
	line := fmt.Sprintf("%s, calls %s", e.When(), e.CallText())
	if idle := e.Idle(); idle != "" {
		line += ", " + idle
	} else if !e.Next.IsZero() {
		line += ", next " + e.inZone(e.Next).Format(time.RFC3339)
	}
	if e.LastRun != nil {
		line += ", last run " + e.inZone(e.LastRun.Due).Format(time.RFC3339) + " " + e.LastRun.Text()
	}
	return line
}

// Text is how a run ended, or what it does, in one line.
func (r Run) Text() string {
	text := ""
	switch {
	case r.Outcome == tools.Async:
		text = "continues in the background"
	case r.Outcome != "":
		text = string(r.Outcome)
	case r.Message == "":
		return "not ended yet" // its call waits in the queue or for a model, or runs
	}
	message := tools.EscapeLine(tools.Excerpt(r.Message, 200))
	if text == "" || message == "" {
		return text + message
	}
	return text + ": " + message
}

// details describes a job in several lines.
func (e Entry) details(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n", e.Name, e.line())
	for _, field := range []struct{ name, text string }{
		{"Kind", e.Kind}, {"Session", e.Session}, {"Arguments", string(e.Args)}, {"Queue", e.Queue}, {"Channel", e.Channel}, {"Chat", e.ChatID},
		{"Timeout", duration(e.Timeout)},
	} {
		if field.text != "" {
			fmt.Fprintf(b, "%s: %s\n", field.name, tools.EscapeLine(field.text))
		}
	}
	if e.LastRun != nil {
		fmt.Fprintf(b, "Last call: %s\n", e.LastRun.Call)
	}
}

package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Actions of a Request.
const (
	ActionAdd     = "add"
	ActionList    = "list"
	ActionGet     = "get"
	ActionUpdate  = "update"
	ActionRemove  = "remove"
	ActionEnable  = "enable"
	ActionDisable = "disable"
)

// Request is one action on jobs, as users and clients write it. An update does not
// change the fields that are empty.
//
// A job can call any tool, so only callers that may call any tool may use it.
type Request struct {
	// Action is one of the actions above; all but ActionList require the Name.
	Action string `json:"action"`
	Name   string `json:"name,omitempty"`
	// At is an RFC 3339 time, a time without offset in TimeZone, or a duration from
	// now, such as "20m".
	At string `json:"at,omitempty"`
	// Every is a duration, such as "1h30m"; Cron and TimeZone are as in Job.
	Every    string `json:"every,omitempty"`
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"time_zone,omitempty"`
	// The call, as in Job.
	Tool    string                     `json:"tool,omitempty"`
	Args    map[string]json.RawMessage `json:"args,omitempty"`
	Queue   string                     `json:"queue,omitempty"`
	Channel string                     `json:"channel,omitempty"`
	ChatID  string                     `json:"chat_id,omitempty"`
	// Timeout is a duration, such as "10m".
	Timeout string `json:"timeout,omitempty"`
	Overlap *bool  `json:"overlap,omitempty"`
	// Limit and After are for a list, which is sorted by name: the most jobs, where 0 means
	// all, and the Next of the page before.
	Limit int    `json:"limit,omitempty"`
	After string `json:"after,omitempty"`

	// Kind lists one kind of schedule: bus.Cron or bus.Heartbeat. Only programs in Go can set it.
	Kind string `json:"-"`
	// Check refuses a job that is added, or whose call is changed, before it is stored, or changes its
	// arguments. Optional.
	Check func(context.Context, *Job) error `json:"-"`

	maxChars int // of a list for a model, without the last line; 0 means all
}

// Do executes a request. For ActionAdd, key is the Key of the job. An update with a key changes the job once.
func (js *Jobs) Do(ctx context.Context, by Caller, key string, r Request) (Answer, error) {
	a, err := js.do(ctx, by, key, r)
	if errors.Is(err, ErrNotFound) {
		err = js.addNames(ctx, by, err)
	}
	return a, err
}

func (js *Jobs) do(ctx context.Context, by Caller, key string, r Request) (Answer, error) {
	actions := []string{ActionAdd, ActionList, ActionGet, ActionUpdate, ActionRemove, ActionEnable, ActionDisable}
	if r.Action != ActionList && r.Name == "" && slices.Contains(actions, r.Action) {
		return Answer{}, tools.Errorf(tools.CodeInvalidArguments, "%s needs the name of the job", r.Action)
	}
	var (
		e   Entry
		err error
	)
	switch r.Action {
	case ActionAdd:
		j := Job{Name: r.Name, Key: key}
		if err = r.change(ctx, &j, new(time.Time)); err == nil {
			e, err = js.Add(ctx, by, j)
		}
	case ActionList:
		return js.list(ctx, by, r)
	case ActionGet:
		e, err = js.Get(ctx, by, r.Name)
	case ActionUpdate:
		now := new(time.Time) // the same for each attempt
		e, err = js.update(ctx, by, r.Name, key, func(j *Job) error { return r.change(ctx, j, now) })
	case ActionEnable, ActionDisable: // a run that has started continues
		e, err = js.Update(ctx, by, r.Name, func(j *Job) error { j.Disabled = r.Action == ActionDisable; return nil })
	case ActionRemove:
		err = js.Remove(ctx, by, r.Name)
		return Answer{Action: r.Action, Name: r.Name}, err
	default:
		err = tools.Errorf(tools.CodeInvalidArguments, "unknown action %q; known are %q", tools.Excerpt(r.Action, 80), actions)
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{Action: r.Action, Name: r.Name, Job: &e, Upcoming: e.Upcoming(5)}, nil
}

func (js *Jobs) list(ctx context.Context, by Caller, r Request) (Answer, error) {
	if r.Limit < 0 {
		return Answer{}, tools.Errorf(tools.CodeInvalidArguments, "limit %d: want a positive number", r.Limit)
	}
	a, chars := Answer{Action: ActionList, Jobs: []Entry{}}, 0
	for e, err := range js.List(ctx, by, r.Kind, r.After) {
		if err != nil {
			return Answer{}, err
		}
		chars += utf8.RuneCountInString(e.Name+e.line()) + len(": \n")
		if n := len(a.Jobs); n > 0 && (n == r.Limit || r.maxChars > 0 && chars > r.maxChars) {
			a.Next = a.Jobs[n-1].position()
			break
		}
		a.Jobs = append(a.Jobs, e)
	}
	return a, nil
}

// addNames adds the names of existing jobs to an error.
func (js *Jobs) addNames(ctx context.Context, by Caller, err error) error {
	var names []string
	for e, listErr := range js.all(ctx, "", "", false, by.mayOwn) {
		if listErr != nil || len(names) == 20 {
			break
		}
		if by.sees(e) {
			names = append(names, e.Name)
		}
	}
	if names == nil {
		return fmt.Errorf("%w; there are none", err)
	}
	return fmt.Errorf("%w; there are %q", err, names)
}

// change applies the request to j. Durations count from now, which change sets if it is zero: when
// Check, which may take a second, has ended.
func (r Request) change(ctx context.Context, j *Job, now *time.Time) error {
	j.Tool, j.Queue = cmp.Or(r.Tool, j.Tool), cmp.Or(r.Queue, j.Queue)
	if r.Channel != "" || r.ChatID != "" { // a chat belongs to its channel
		j.Channel, j.ChatID = cmp.Or(r.Channel, j.Channel), r.ChatID
	}
	if r.Args != nil {
		args, err := bus.Encode(r.Args)
		if err != nil {
			return tools.Errorf(tools.CodeInvalidArguments, "args: %v", err)
		}
		j.Args = args
	}
	if r.Overlap != nil {
		j.Overlap = *r.Overlap
	}
	if err := parseDuration("timeout", r.Timeout, &j.Timeout); err != nil {
		return err
	}
	if r.Check != nil && (r.Tool != "" || r.Args != nil || r.Queue != "") {
		if err := r.Check(ctx, j); err != nil {
			return err
		}
	}
	if now.IsZero() {
		*now = time.Now()
	}
	return r.changeTimes(j, *now)
}

// changeTimes sets At, Every or Cron and clears the other two.
func (r Request) changeTimes(j *Job, now time.Time) error {
	given := 0
	for _, text := range []string{r.At, r.Every, r.Cron} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1, given == 0 && j.Every == 0 && j.Cron == "" && j.At.IsZero():
		return tools.Errorf(tools.CodeInvalidArguments, "give exactly one of at, every and cron")
	case given == 1:
		j.At, j.Every, j.Cron = time.Time{}, 0, r.Cron
	}
	if given == 1 && r.Cron == "" {
		j.TimeZone = ""
	}
	if r.At != "" {
		at, err := parseAt(r.At, r.TimeZone, now)
		if err != nil {
			return tools.Errorf(tools.CodeInvalidArguments, "%v", err)
		}
		j.At = at
		return nil
	}
	j.TimeZone = cmp.Or(r.TimeZone, j.TimeZone)
	return parseDuration("every", r.Every, &j.Every)
}

func parseDuration(what, text string, to *time.Duration) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return tools.Errorf(tools.CodeInvalidArguments, "%s %q: want a duration such as 90s, 30m or 1h30m", what, tools.Excerpt(text, 80))
	}
	*to = d
	return nil
}

// parseAt parses a Request.At.
func parseAt(text, zone string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return time.Time{}, fmt.Errorf("at %q: the time has passed", text)
		}
		return now.Add(d).UTC().Truncate(time.Millisecond), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), nil
	}
	loc, err := Job{TimeZone: zone}.location()
	if err != nil {
		return time.Time{}, err
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(layout, text, loc); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("at %q: want a time such as %s, or a duration such as 20m", tools.Excerpt(text, 80),
		now.UTC().Add(time.Hour).Format(time.RFC3339))
}

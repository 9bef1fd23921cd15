package cron

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/tools"
)

// Job is a call and its times. Exactly one of Every, Cron and At is set.
type Job struct {
	// Kind is bus.Heartbeat for a heartbeat, which a program keeps (Jobs.Put) and which has a
	// name that is unique in the installation. It is empty for the jobs of users and models.
	Kind string `json:"kind,omitempty"`
	// Name is a token, unique in its session.
	Name string `json:"name"`
	// Every is an interval of whole seconds. It restarts when the job is changed.
	Every time.Duration `json:"-"`
	// Cron is an expression of 5 fields, or 6 with seconds first. TimeZone is its
	// IANA time zone; default UTC.
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"time_zone,omitempty"`
	// At is the time of a job that runs once.
	At time.Time `json:"at,omitzero"`

	// Session owns the job, and its calls run there. Add sets it to the caller's session,
	// unless the caller is an operator. Update does not change it.
	Session string `json:"session"`
	// Tool is called with Args, an object, on Queue.
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	Queue string          `json:"queue,omitempty"`
	// Channel and ChatID receive the notifications; default as for any call.
	Channel string `json:"channel,omitempty"`
	ChatID  string `json:"chat_id,omitempty"`
	// Timeout bounds each run. Default a day.
	Timeout time.Duration `json:"-"`
	// Overlap allows a run to start before the previous one has ended.
	Overlap bool `json:"overlap,omitempty"`
	// Disabled keeps the job but does not run it.
	Disabled bool `json:"-"`

	// Key identifies the request that adds the job, such as a call, so that a
	// retry adds no second job. Optional.
	Key string `json:"-"`
	// CreatedAt is set by Add.
	CreatedAt time.Time `json:"created_at,omitzero"`

	// stored is the name of the schedule; see storedName.
	stored string
}

// sessionMark separates a session and the name of its job in the name of a schedule.
const sessionMark = "--"

// kind returns the kind of j's schedule.
func (j Job) kind() string { return cmp.Or(j.Kind, bus.Cron) }

// storedName returns the name of a job's schedule, which is unique in the installation.
// Those of the default session are the names of the jobs. The session is a token.
func storedName(session, name string) string {
	switch {
	case session == tools.DefaultSession && !strings.Contains(name, sessionMark):
		return name
	case strings.Contains(session+"-", sessionMark): // two pairs could have the same name
		return tools.Token(session + "/" + name)
	}
	return tools.Token(session + sessionMark + name)
}

// NameIn returns the name that a session has for a schedule.
func NameIn(session, schedule string) string {
	return strings.TrimPrefix(schedule, session+sessionMark)
}

// maxArgs bounds the arguments, in bytes, so that lists of jobs stay small.
const maxArgs = 256 << 10

// body is the body of a job's schedule: a tick and additional fields.
type body struct {
	tools.Tick
	extra
}

type extra struct {
	CreatedAt time.Time `json:"created_at,omitzero"`
	Key       string    `json:"key,omitempty"`
}

// schedule checks j and returns its schedule.
func (j Job) schedule() (schedule.Schedule, error) {
	args := j.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if !tools.IsToken(j.Name) {
		return schedule.Schedule{}, tools.Errorf(tools.CodeInvalidArguments, "the name %q is not of the form %s", tools.Excerpt(j.Name, 80), tools.TokenForm)
	}
	if j.stored == "" && j.Kind != "" {
		j.stored = j.Name
	}
	if j.stored == "" {
		j.stored = storedName(tools.Call{Session: j.Session}.SessionToken(), j.Name)
	}
	name := "" // that of the schedule
	if j.stored != j.Name {
		name = j.Name
	}
	s := schedule.Schedule{Kind: j.kind(), Name: j.stored, Every: j.Every, Cron: j.Cron, TimeZone: j.TimeZone, At: j.At, Disabled: j.Disabled}
	err := j.check(args)
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return s, tools.Errorf(tools.CodeInvalidArguments, "%v", err)
	}
	s.Body, err = bus.Encode(body{
		Tick: tools.Tick{
			Call: tools.Call{
				Session: j.Session, Tool: j.Tool, Args: args,
				Channel: j.Channel, ChatID: j.ChatID, Action: j.kind(),
			},
			Queue: j.Queue, TimeoutS: int64(j.Timeout / time.Second),
			Overlap: j.Overlap || !j.At.IsZero(), // a one-shot that is skipped would never run
			Name:    name,
		},
		extra: extra{j.CreatedAt, j.Key},
	})
	return s, err
}

// Validate returns an error if j is not valid.
func (j Job) Validate() error {
	_, err := j.schedule()
	return err
}

func (j Job) check(args json.RawMessage) error {
	var object map[string]json.RawMessage
	err := json.Unmarshal(args, &object)
	for _, token := range []struct{ what, text string }{{"tool", j.Tool}, {"queue", cmp.Or(j.Queue, bus.DefaultQueue)}} {
		if !tools.IsToken(token.text) {
			return fmt.Errorf("the %s %q is not of the form %s", token.what, tools.Excerpt(token.text, 80), tools.TokenForm)
		}
	}
	switch {
	case err != nil || object == nil:
		return errors.New("the arguments are not a JSON object")
	case len(args) > maxArgs:
		return fmt.Errorf("the arguments have %d bytes; at most %d are accepted", len(args), maxArgs)
	case len(j.Session) > tools.MaxIDLen || len(j.Channel)+len(j.ChatID) > tools.MaxIDLen || len(j.Key) > tools.MaxIDLen:
		return errors.New("the session, channel, chat or key is too long")
	case j.Timeout < 0 || j.Timeout%time.Second != 0:
		return fmt.Errorf("the timeout %s is not a whole number of seconds", j.Timeout)
	case !j.At.IsZero() && !j.Disabled && !j.At.After(time.Now()):
		return fmt.Errorf("the time %s has passed; now is %s", j.At.Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// kindOf returns the Kind of the job of a schedule.
func kindOf(s schedule.Status) string {
	if s.Kind == bus.Cron {
		return ""
	}
	return s.Kind
}

// decodeJob reads the job of a schedule.
func decodeJob(s schedule.Status) (Job, error) {
	tick, err := tools.DecodeTick(s.Body)
	if err != nil {
		return Job{}, fmt.Errorf("job %q: %w", s.Name, err)
	}
	var more extra
	_ = json.Unmarshal(s.Body, &more) // another program may have written the schedule
	expression, _ := strings.CutPrefix(s.Cron, "0 ")
	return Job{
		Kind: kindOf(s), Name: cmp.Or(tick.Name, s.Name), stored: s.Name, Every: s.Every, Cron: expression, TimeZone: s.TimeZone, At: s.At, Disabled: s.Disabled,
		Session: cmp.Or(tick.Session, s.Kind+"-"+s.Name), // the default of the worker
		Tool:    tick.Tool, Args: tick.Args, Queue: tick.Queue,
		Channel: tick.Channel, ChatID: tick.ChatID,
		Timeout: time.Duration(tick.TimeoutS) * time.Second, Overlap: tick.Overlap && s.At.IsZero(),
		Key: more.Key, CreatedAt: more.CreatedAt,
	}, nil
}

package cron

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
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
	// changedBy is the key of the last request with one that changed the job.
	changedBy string
}

// sessionMark separates a session and the name of its job in the name of a schedule.
const sessionMark = "--"

// kind returns the kind of j's schedule.
func (j Job) kind() string { return cmp.Or(j.Kind, bus.Cron) }

// scheduleName returns the name of j's schedule.
func (j Job) scheduleName() string {
	switch {
	case j.stored != "":
		return j.stored
	case j.Kind != "":
		return j.Name
	}
	return storedName(tools.Call{Session: j.Session}.SessionToken(), j.Name)
}

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
	ChangedBy string    `json:"changed_by,omitempty"`
}

// encode checks j and returns the body of its schedule.
func (j Job) encode() ([]byte, error) {
	if len(j.Args) == 0 {
		j.Args = json.RawMessage("{}")
	}
	if err := j.Validate(); err != nil {
		return nil, err
	}
	name := "" // that of the schedule
	if j.scheduleName() != j.Name {
		name = j.Name
	}
	return bus.Encode(body{
		Tick: tools.Tick{
			Call: tools.Call{
				Session: j.Session, Tool: j.Tool, Args: j.Args,
				Channel: j.Channel, ChatID: j.ChatID, Action: j.kind(),
			},
			Queue: j.Queue, TimeoutS: int64(j.Timeout / time.Second),
			Overlap: j.Overlap || !j.At.IsZero(), // a one-shot that is skipped would never run
			Name:    name,
		},
		extra: extra{j.CreatedAt, j.Key, j.changedBy},
	})
}

// Validate returns an error if j is not valid.
func (j Job) Validate() error {
	err := j.check()
	if err == nil {
		err = j.ValidateTimes()
	}
	if err != nil {
		return tools.Errorf(tools.CodeInvalidArguments, "%v", err)
	}
	return nil
}

func (j Job) check() error {
	var object map[string]json.RawMessage
	err := json.Unmarshal(j.Args, &object)
	for _, token := range []struct{ what, text string }{{"name", j.Name}, {"tool", j.Tool}, {"queue", cmp.Or(j.Queue, bus.DefaultQueue)}} {
		if !tools.IsToken(token.text) {
			return fmt.Errorf("the %s %q is not of the form %s", token.what, tools.Excerpt(token.text, 80), tools.TokenForm)
		}
	}
	switch {
	case len(j.Args) > 0 && (err != nil || object == nil):
		return errors.New("the arguments are not a JSON object")
	case len(j.Args) > maxArgs:
		return fmt.Errorf("the arguments have %d bytes; at most %d are accepted", len(j.Args), maxArgs)
	case len(j.Session) > tools.MaxIDLen || len(j.Channel)+len(j.ChatID) > tools.MaxIDLen || len(j.Key) > tools.MaxIDLen:
		return errors.New("the session, channel, chat or key is too long")
	case j.Timeout < 0 || j.Timeout%time.Second != 0:
		return fmt.Errorf("the timeout %s is not a whole number of seconds", j.Timeout)
	case !j.At.IsZero() && !j.Disabled && !j.At.After(time.Now()):
		return fmt.Errorf("the time %s has passed; now is %s", j.At.Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// decode sets what the body of a schedule says. The times are in its headers.
func (j *Job) decode(kind, name string, data []byte) error {
	j.Name, j.stored = name, name
	if kind != bus.Cron {
		j.Kind = kind
	}
	tick, err := tools.DecodeTick(data)
	if err != nil {
		return err
	}
	var more extra
	_ = json.Unmarshal(data, &more)                                                  // another program may have written the schedule
	j.Name, j.Session = cmp.Or(tick.Name, name), cmp.Or(tick.Session, kind+"-"+name) // the default of the worker
	j.Tool, j.Args, j.Queue, j.Channel, j.ChatID = tick.Tool, tick.Args, tick.Queue, tick.Channel, tick.ChatID
	j.Timeout, j.Overlap = time.Duration(tick.TimeoutS)*time.Second, tick.Overlap && j.At.IsZero()
	j.Key, j.CreatedAt, j.changedBy = more.Key, more.CreatedAt, more.ChangedBy
	return nil
}

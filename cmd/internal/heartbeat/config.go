package heartbeat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// DefaultEvery is the interval of heartbeats.
	DefaultEvery = 30 * time.Minute
	// MinEvery is the shortest interval without AllowShort.
	MinEvery = 5 * time.Minute
	// DefaultTimeout bounds a run; longer work should run in the background.
	DefaultTimeout = time.Hour
	// DefaultLogBytes is about 10,000 runs.
	DefaultLogBytes = 1 << 20
)

// Config configures a heartbeat. Workspace and Tool are required.
type Config struct {
	// Disabled removes the schedule.
	Disabled bool
	// Only says that no other process schedules this heartbeat: without a tool or instructions,
	// an existing schedule is an old one of this process, and is removed.
	Only bool
	// Name of the schedule, a token. Default "main".
	Name string
	// Workspace is the directory of HEARTBEAT.md and memory/heartbeat.log.
	Workspace string
	// Every is the interval, in whole seconds, at least MinEvery. Default
	// DefaultEvery.
	Every time.Duration
	// AllowShort allows intervals down to a second, for tests and demos.
	AllowShort bool
	// Tool is called by each tick, on Queue; Args are its arguments, an object.
	Tool  string
	Queue string
	Args  json.RawMessage
	// PromptArg is the argument that receives the text of HEARTBEAT.md. If it is
	// empty, the file only decides whether the tool is called.
	PromptArg string
	// Channel receives the notifications. Default is the last channel that the user
	// used.
	Channel string
	// Timeout bounds each run. Default DefaultTimeout.
	Timeout time.Duration
	// LogBytes is the size at which the log replaces OldLogFile. Default
	// DefaultLogBytes.
	LogBytes int64
	// Poll is the interval of checks of HEARTBEAT.md. Default 5 s.
	Poll time.Duration
	// Log receives events about the schedule.
	Log zerolog.Logger
}

// Validate returns an error if c is not valid.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns c with its defaults, or an error if c is not valid.
func (c Config) withDefaults() (Config, error) {
	c.Name, c.Channel = cmp.Or(c.Name, "main"), cmp.Or(c.Channel, tools.LastChannel)
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.Timeout = cmp.Or(max(c.Timeout, 0), DefaultTimeout)
	c.LogBytes = cmp.Or(max(c.LogBytes, 0), DefaultLogBytes)
	c.Poll = cmp.Or(max(c.Poll, 0), 5*time.Second)
	if len(c.Args) == 0 {
		c.Args = json.RawMessage("{}")
	}
	var args map[string]json.RawMessage
	switch err := json.Unmarshal(c.Args, &args); {
	case !tools.IsToken(c.Name):
		return c, fmt.Errorf("the name %q of the heartbeat is not of the form %s", tools.Excerpt(c.Name, 80), tools.TokenForm)
	case c.Disabled:
		return c, nil
	case c.Workspace == "":
		return c, errors.New("the heartbeat has no workspace")
	case c.Every < MinEvery && !c.AllowShort:
		return c, fmt.Errorf("the interval %s of the heartbeat is shorter than %s; a shorter one needs AllowShort", c.Every, MinEvery)
	case c.Tool != "" && !tools.IsToken(c.Tool):
		return c, fmt.Errorf("the tool %q of the heartbeat is not of the form %s", tools.Excerpt(c.Tool, 80), tools.TokenForm)
	case err != nil || args == nil:
		return c, errors.New("the arguments of the heartbeat are not a JSON object")
	}
	return c, nil
}

// schedule returns the schedule for a prompt.
func (c Config) schedule(prompt string) (schedule.Schedule, error) {
	args := c.Args
	if c.PromptArg != "" {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(args, &fields); err != nil {
			return schedule.Schedule{}, err
		}
		text, err := bus.Encode(prompt)
		if err != nil {
			return schedule.Schedule{}, err
		}
		fields[c.PromptArg] = text
		if args, err = bus.Encode(fields); err != nil {
			return schedule.Schedule{}, err
		}
	}
	body, err := bus.Encode(tools.Tick{
		Call:     tools.Call{Session: session(c.Name), Tool: c.Tool, Args: args, Channel: c.Channel, Action: bus.Heartbeat},
		Queue:    c.Queue,
		TimeoutS: max(1, int64(c.Timeout/time.Second)),
	})
	if err != nil {
		return schedule.Schedule{}, err
	}
	return schedule.Schedule{Kind: bus.Heartbeat, Name: c.Name, Every: c.Every, Body: body}, nil
}

// session returns the session of a heartbeat.
func session(name string) string { return bus.Heartbeat + "-" + name }

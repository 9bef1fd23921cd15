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
	// DefaultTimeout bounds a run; longer work should run in the background.
	DefaultTimeout = time.Hour

	// name is that of the schedule, and session that of its calls.
	name    = "main"
	session = bus.Heartbeat + "-" + name
)

// Config configures a heartbeat. Workspace and Tool are required.
type Config struct {
	// Disabled removes the schedule.
	Disabled bool
	// Only says that no other process schedules this heartbeat: without a tool or instructions,
	// an existing schedule is an old one of this process, and is removed.
	Only bool
	// Workspace is the directory of HEARTBEAT.md and memory/heartbeat.log.
	Workspace string
	// Every is the interval, in whole seconds. Default DefaultEvery.
	Every time.Duration
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
	c.Channel = cmp.Or(c.Channel, tools.LastChannel)
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.Timeout = cmp.Or(max(c.Timeout, 0), DefaultTimeout)
	c.Poll = cmp.Or(max(c.Poll, 0), 5*time.Second)
	if len(c.Args) == 0 {
		c.Args = json.RawMessage("{}")
	}
	var args map[string]json.RawMessage
	switch err := json.Unmarshal(c.Args, &args); {
	case c.Disabled:
		return c, nil
	case c.Workspace == "":
		return c, errors.New("the heartbeat has no workspace")
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
		Call:     tools.Call{Session: session, Tool: c.Tool, Args: args, Channel: c.Channel, Action: bus.Heartbeat},
		Queue:    c.Queue,
		TimeoutS: max(1, int64(c.Timeout/time.Second)),
	})
	if err != nil {
		return schedule.Schedule{}, err
	}
	return schedule.Schedule{Kind: bus.Heartbeat, Name: name, Every: c.Every, Body: body}, nil
}

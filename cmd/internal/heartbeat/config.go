package heartbeat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
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
	c.Timeout = cmp.Or(max(c.Timeout, 0).Truncate(time.Second), DefaultTimeout)
	c.Poll = cmp.Or(max(c.Poll, 0), 5*time.Second)
	if c.Disabled {
		return c, nil
	}
	if c.Workspace == "" {
		return c, errors.New("the heartbeat has no workspace")
	}
	j, err := c.job("")
	if j.Tool = cmp.Or(j.Tool, "none"); err == nil { // without a tool, the job is never stored
		err = j.Validate()
	}
	if err != nil {
		return c, fmt.Errorf("heartbeat: %w", err)
	}
	return c, nil
}

// job returns the job for a prompt.
func (c Config) job(prompt string) (cron.Job, error) {
	j := cron.Job{
		Kind: bus.Heartbeat, Name: name, Session: session, Every: c.Every,
		Tool: c.Tool, Args: c.Args, Queue: c.Queue, Channel: c.Channel, Timeout: c.Timeout,
	}
	if c.PromptArg == "" {
		return j, nil
	}
	fields := map[string]json.RawMessage{}
	if len(c.Args) > 0 {
		if err := json.Unmarshal(c.Args, &fields); err != nil || fields == nil {
			return j, errors.New("the arguments are not a JSON object")
		}
	}
	text, err := bus.Encode(prompt)
	if err != nil {
		return j, err
	}
	fields[c.PromptArg] = text
	j.Args, err = bus.Encode(fields)
	return j, err
}

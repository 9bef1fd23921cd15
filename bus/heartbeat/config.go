package heartbeat

import (
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
	// DefaultTimeout bounds a run; longer work belongs into the background.
	DefaultTimeout = time.Hour
	// DefaultLogBytes are about 10,000 runs.
	DefaultLogBytes = 1 << 20
)

// Config says what a heartbeat does. Workspace and Tool are needed.
type Config struct {
	// Disabled removes the schedule and does nothing else.
	Disabled bool
	// Name of the schedule, a token. Default "main".
	Name string
	// Workspace is the directory of HEARTBEAT.md and memory/heartbeat.log.
	Workspace string
	// Every is the interval, in whole seconds, at least MinEvery. Default
	// DefaultEvery.
	Every time.Duration
	// AllowShort allows intervals down to a second, for tests and demos.
	AllowShort bool
	// Tool is what a tick calls, on Queue; Args are its arguments, an object.
	Tool  string
	Queue string
	Args  json.RawMessage
	// PromptArg names the argument that takes the text of HEARTBEAT.md. Empty
	// gives it to none: the file then only says whether anything runs.
	PromptArg string
	// Channel and ChatID are where the answer goes. Default is where the user
	// was last heard.
	Channel, ChatID string
	// Timeout bounds each run. Default DefaultTimeout.
	Timeout time.Duration
	// LogBytes is how long the log may get before it becomes OldLogFile, in place
	// of the one before. Default DefaultLogBytes.
	LogBytes int64
	// Poll is how often HEARTBEAT.md is looked at. Default 5 s.
	Poll time.Duration
	// Log takes what happens to the schedule.
	Log zerolog.Logger
}

// Validate reports what is wrong with c, or nil.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns c complete, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		c.Name = "main"
	}
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.Channel == "" {
		c.Channel = tools.LastChannel
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.LogBytes <= 0 {
		c.LogBytes = DefaultLogBytes
	}
	if c.Poll <= 0 {
		c.Poll = 5 * time.Second
	}
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
		return c, fmt.Errorf("the heartbeat's interval %s is shorter than %s; shorter ones must be allowed explicitly", c.Every, MinEvery)
	case c.Tool != "" && !tools.IsToken(c.Tool):
		return c, fmt.Errorf("the tool %q of the heartbeat is not of the form %s", tools.Excerpt(c.Tool, 80), tools.TokenForm)
	case err != nil || args == nil:
		return c, errors.New("the arguments of the heartbeat are not a JSON object")
	}
	return c, nil
}

// schedule is what the server should hold for a prompt.
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
		Call:     tools.Call{Session: session(c.Name), Tool: c.Tool, Args: args, Channel: c.Channel, ChatID: c.ChatID, Action: bus.Heartbeat},
		Queue:    c.Queue,
		TimeoutS: max(1, int64(c.Timeout/time.Second)),
	})
	if err != nil {
		return schedule.Schedule{}, err
	}
	return schedule.Schedule{Kind: bus.Heartbeat, Name: c.Name, Every: c.Every, Body: body}, nil
}

// session is the conversation of a heartbeat.
func session(name string) string { return bus.Heartbeat + "-" + name }

package heartbeat

import (
	"cmp"
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
)

// Config configures a heartbeat. Workspace is required.
type Config struct {
	// Disabled removes the schedule. Once updates it once.
	Disabled, Once bool
	// NoAgent says that no worker runs agents, so that an existing schedule is an old one and is removed.
	NoAgent bool
	// Workspace is the directory of HEARTBEAT.md and memory/heartbeat.log.
	Workspace string
	// Every is the interval, in whole seconds. Default DefaultEvery.
	Every time.Duration
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
	if err == nil {
		err = j.Validate()
	}
	if err != nil {
		return c, fmt.Errorf("heartbeat: %w", err)
	}
	return c, nil
}

// agentTool is the tool of agents, agent.AgentTool. This package does not contain the agent.
const agentTool = "agent"

// job returns the job that sends a prompt to an agent. In one conversation, each tick would add to the
// prompt of the next one.
func (c Config) job(prompt string) (cron.Job, error) {
	args, err := bus.Encode(map[string]any{"fresh": true, "prompt": prompt})
	return cron.Job{
		Kind: bus.Heartbeat, Name: bus.HeartbeatName, Session: bus.HeartbeatSession, Every: c.Every,
		Tool: agentTool, Args: args, Queue: bus.AgentQueue, Channel: c.Channel, Timeout: c.Timeout,
	}, err
}

package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
)

// Heartbeat contains the flags of the heartbeat, without its workspace.
type Heartbeat struct {
	heartbeat.Config
	Enabled    bool
	AllowShort bool
	Args       string
}

// minEvery is the shortest interval without AllowShort.
const minEvery = 5 * time.Minute

// AddFlags adds the flags.
func (h *Heartbeat) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&h.Enabled, "heartbeat-enabled", true, "schedule the heartbeat; false removes its schedule")
	flags.DurationVar(&h.Every, "heartbeat-every", heartbeat.DefaultEvery, "`TIME` between heartbeats, at least 5m")
	flags.BoolVar(&h.AllowShort, "heartbeat-allow-short", false, "allow less than 5m between heartbeats, down to 1s")
	flags.StringVar(&h.Tool, "heartbeat-tool", "", "`TOOL` that a heartbeat calls; without a tool, an existing schedule is unchanged")
	flags.StringVar(&h.Args, "heartbeat-args", "{}", "`JSON` object of its arguments")
	flags.StringVar(&h.PromptArg, "heartbeat-prompt-arg", "", "`NAME` of the argument that receives the text of HEARTBEAT.md")
	flags.StringVar(&h.Channel, "heartbeat-channel", "last", "`CHANNEL` of the notifications; \"last\" is the channel that the user last used")
	flags.DurationVar(&h.Timeout, "heartbeat-timeout", heartbeat.DefaultTimeout, "maximum `TIME` of a run")
}

// Configuration returns the configuration of the flags.
func (h *Heartbeat) Configuration() (heartbeat.Config, error) {
	cfg := h.Config
	cfg.Disabled, cfg.Args = !h.Enabled, json.RawMessage(h.Args)
	if cfg.Every < minEvery && !h.AllowShort && !cfg.Disabled {
		return cfg, Exit(ExitUsage, "--heartbeat-every %s is shorter than %s; --heartbeat-allow-short allows it", cfg.Every, minEvery)
	}
	return cfg, nil
}

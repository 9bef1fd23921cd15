package cli

import (
	"encoding/json"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus/heartbeat"
)

// Heartbeat holds the flags of the heartbeat, but its workspace.
type Heartbeat struct {
	heartbeat.Config
	Enabled bool
	Args    string
}

// AddFlags adds the heartbeat's flags. tool is the default of the tool that
// ticks call, promptArg of the argument that takes the text of HEARTBEAT.md.
func (h *Heartbeat) AddFlags(flags *pflag.FlagSet, tool, promptArg string) {
	flags.BoolVar(&h.Enabled, "heartbeat-enabled", true, "keep the heartbeat; false removes it (PICOCLAW_HEARTBEAT_ENABLED)")
	flags.DurationVar(&h.Every, "heartbeat-every", heartbeat.DefaultEvery, "`TIME` between heartbeats, at least 5m")
	flags.BoolVar(&h.AllowShort, "heartbeat-allow-short", false, "allow less than 5m between heartbeats, down to 1s")
	flags.StringVar(&h.Tool, "heartbeat-tool", tool, "`TOOL` that a heartbeat calls; none rests")
	flags.StringVar(&h.Args, "heartbeat-args", "{}", "`JSON` object of its arguments")
	flags.StringVar(&h.PromptArg, "heartbeat-prompt-arg", promptArg, "`NAME` of the argument that takes the text of HEARTBEAT.md")
	flags.StringVar(&h.Channel, "heartbeat-channel", "last", "`CHANNEL` of the answers; \"last\" is where the user was last heard")
	flags.DurationVar(&h.Timeout, "heartbeat-timeout", heartbeat.DefaultTimeout, "`TIME` that a heartbeat may take")
}

// Configuration is what the flags say.
func (h *Heartbeat) Configuration() (heartbeat.Config, error) {
	cfg := h.Config
	cfg.Disabled, cfg.Args = !h.Enabled, json.RawMessage(h.Args)
	if cfg.Every < heartbeat.MinEvery && !cfg.AllowShort && !cfg.Disabled {
		return cfg, Exit(ExitUsage, "--heartbeat-every %s: it is shorter than %s; --heartbeat-allow-short allows that", cfg.Every, heartbeat.MinEvery)
	}
	if !json.Valid(cfg.Args) {
		return cfg, Exit(ExitUsage, "--heartbeat-args: it is not a JSON object")
	}
	return cfg, nil
}

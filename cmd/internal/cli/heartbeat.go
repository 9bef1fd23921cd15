package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
)

// Heartbeat are the settings of the heartbeat, without its workspace.
type Heartbeat struct {
	heartbeat.Config
	Enabled    bool
	AllowShort bool
}

// minEvery is the shortest interval without AllowShort.
const minEvery = 5 * time.Minute

// heartbeatSettings declares the settings of a Heartbeat.
type heartbeatSettings struct {
	Enabled    bool          `flag:"heartbeat-enabled" env:"PICOCLAW_HEARTBEAT_ENABLED" default:"true" help:"schedule the heartbeat; false removes its schedule"`
	Every      time.Duration `flag:"heartbeat-every" min:"1s" unit:"TIME" help:"TIME between heartbeats, at least 5m"`
	AllowShort bool          `flag:"heartbeat-allow-short" help:"allow less than 5m between heartbeats, down to 1s"`
	Channel    string        `flag:"heartbeat-channel" default:"last" unit:"CHANNEL" help:"CHANNEL of the notifications; last is the one that the user last used"`
	Timeout    time.Duration `flag:"heartbeat-timeout" min:"1s" unit:"TIME" help:"maximum TIME of a run"`
}

// AddFlags adds the flags, of a topic or of none.
func (h *Heartbeat) AddFlags(flags *pflag.FlagSet, topic string) {
	h.Every, h.Timeout = heartbeat.DefaultEvery, heartbeat.DefaultTimeout
	AddSettingsOf(flags, h, heartbeatSettings{}, topic)
}

// Configuration returns the configuration of the flags, in a workspace.
func (h *Heartbeat) Configuration(workspace string) (heartbeat.Config, error) {
	cfg := h.Config
	cfg.Disabled, cfg.Workspace = !h.Enabled, workspace
	if cfg.Every < minEvery && !h.AllowShort && !cfg.Disabled {
		return cfg, Exit(ExitUsage, "--heartbeat-every %s is shorter than %s; --heartbeat-allow-short allows it", cfg.Every, minEvery)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, Exit(ExitUsage, "%w", err)
	}
	return cfg, nil
}

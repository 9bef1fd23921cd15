package demo

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
	"github.com/stevedore-bus/stevedore/tools"
)

const instructions = "Check that all is well. If there is nothing to report, answer only HEARTBEAT_OK."

// heartbeat runs one heartbeat, whose file is in a directory, and shows what it cost.
func (d *demo) heartbeat(ctx context.Context, dir string) error {
	d.print("\n6. A heartbeat sends HEARTBEAT.md to the agent, here every second. An empty file runs nothing.")
	if err := os.WriteFile(filepath.Join(dir, heartbeat.File), []byte(instructions), 0o600); err != nil {
		return err
	}
	err := heartbeat.Run(ctx, d.bus, heartbeat.Config{Workspace: dir, Every: time.Second, Once: true})
	for err == nil {
		for s, listErr := range agents.Schedules(ctx, d.bus, bus.Heartbeat) {
			if err = listErr; err == nil && s.LastRun != nil && s.LastRun.Outcome != "" {
				d.print("   | %s, %s: last run %s, %s, turns: %d, tokens: %s, cost: %.4f", s.Name, s.When,
					s.LastRun.Due.Format(time.TimeOnly), s.LastRun.Outcome, s.Used.Turns, thousands(s.Used.Usage.Total()), s.Used.Cost)
				d.print("   stevedore status and the page show this of each heartbeat.")
				return nil
			}
		}
		if err == nil {
			err = tools.Sleep(ctx, 50*time.Millisecond)
		}
	}
	return err
}

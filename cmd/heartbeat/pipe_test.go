//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/schedule"
)

// The process continues after the reader of its log has ended.
func TestHeartbeatSurvivesAClosedPipe(t *testing.T) {
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{})
	workspace := t.TempDir()
	cmd := exec.Command("heartbeat", "--tool", "shell", "--prompt-arg", "command", "--workspace", workspace)
	cmd.Env = append(os.Environ(), "NATS_URL="+s.URL())
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	if _, err := bufio.NewReader(log).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(workspace, "HEARTBEAT.md")
	for _, tasks := range []string{"- look\n", ""} { // each change is a line in the log
		if err := os.WriteFile(file, []byte(tasks), 0o600); err != nil {
			t.Fatal(err)
		}
		waitForSchedules(t, b, min(len(tasks), 1))
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func waitForSchedules(t *testing.T, b *bus.Bus, want int) {
	t.Helper()
	bustest.WaitUntil(t, "the number of schedules", func() bool {
		have := 0
		for _, err := range schedule.New(b).List(t.Context(), "") {
			if err == nil {
				have++
			}
		}
		return have == want
	})
}

//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The process continues after the reader of its log has ended.
func TestHeartbeatSurvivesAClosedPipe(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{})
	workspace := t.TempDir()
	cmd := exec.Command("stevedore-heartbeat", "--workspace", workspace)
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

// Cron jobs are the subject of "stevedore cron ls".
func TestListShowsOnlyHeartbeats(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{})
	for _, kind := range []string{bus.Heartbeat, ""} {
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Kind: kind, Name: "main", Tool: "x", Every: time.Hour}, true); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"list", "--server", s.URL()}, nil, &stdout, &stderr)
	if code != 0 || !strings.HasPrefix(stdout.String(), "main (heartbeat): every 1h") || strings.Contains(stdout.String(), "cron") {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
}

func waitForSchedules(t *testing.T, b *bus.Bus, want int) {
	t.Helper()
	bustest.WaitUntil(t, "the number of schedules", func() bool {
		have := 0
		for _, err := range cron.New(b).List(t.Context(), cron.Caller{Operator: true}, "", "") {
			if err == nil {
				have++
			}
		}
		return have == want
	})
}

//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/schedule"
)

// Who reads the log and goes away does not end the process.
func TestHeartbeatOutlivesTheReaderOfItsLog(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), NoSync: true, Listen: "127.0.0.1:0", Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
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
		awaitSchedules(t, b, min(len(tasks), 1))
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func awaitSchedules(t *testing.T, b *bus.Bus, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		have := 0
		for _, err := range schedule.New(b).List(t.Context(), "") {
			if err == nil {
				have++
			}
		}
		if have == want {
			return
		}
	}
	t.Fatalf("there are not %d schedules", want)
}

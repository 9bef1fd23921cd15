package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// pasted finds the command at the end of an advice.
var pasted = regexp.MustCompile(`: (stevedore .*)$`)

// The command in the advice of a problem works when it is pasted in the state that produced it, by a reader whose
// data directory is not the default one.
func TestRemediesWorkWhenPasted(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	if err := os.Symlink(workerProgram, filepath.Join(bin, "stevedore")); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "--ask", "write_file", "--max-bytes", "sessions=1MiB")
	b, err := bus.Connect(t.Context(), bus.Config{Server: u.url, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	publish := func(subject, body string) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	publish(b.Call("gpu", "read_file", "s", "c1"), `{"args":{"path":"note.txt"}}`)
	publish(b.Call("default", "read_file", "s", "c2"), `no JSON`)
	publish(b.Call("default", "write_file", "s", "c3"), `{"args":{"path":"x","content":"y"}}`)
	for i := range 9 {
		publish(b.Session(fmt.Sprint("s", i)), strings.Repeat("x", 100_000))
	}
	commandFor := func(code string) (command string) {
		t.Helper()
		bustest.WaitUntil(t, "the problem "+code, func() bool {
			for _, p := range problemsOf(t, []string{"--data", u.data}) {
				if m := pasted.FindStringSubmatch(p.Advice); p.Code == code && m != nil {
					command = m[1]
				}
			}
			return command != ""
		})
		return command
	}
	paste := func(command string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "exec "+command)
		cmd.Env = append(cleanEnvironment(), "PATH="+bin+":"+os.Getenv("PATH"))
		cmd.Dir = u.workspace
		return cmd
	}
	gone := func(code string) {
		t.Helper()
		bustest.WaitUntil(t, code+" to be gone", func() bool {
			for _, p := range problemsOf(t, []string{"--data", u.data}) {
				if p.Code == code {
					return false
				}
			}
			return true
		})
	}
	for _, code := range []string{status.DeadLetters, status.ApprovalWaiting, status.StreamNearlyFull} {
		command := commandFor(code)
		if out, err := paste(command).CombinedOutput(); err != nil {
			t.Errorf("%s: %s: %v\n%s", code, command, err, out)
		}
	}
	gone(status.StreamNearlyFull)
	worker := paste(commandFor(status.QueueWithoutWorker))
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	gone(status.QueueWithoutWorker)
	if err := worker.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = worker.Wait()

	if err := b.JetStream().DeleteStream(t.Context(), b.StreamName(bus.Dead)); err != nil {
		t.Fatal(err)
	}
	if out, err := paste(commandFor(status.StreamMissing)).CombinedOutput(); err != nil {
		t.Errorf("provision: %v\n%s", err, out)
	}
	gone(status.StreamMissing)

	bucket, err := b.JetStream().Stream(t.Context(), "KV_"+b.BucketName(bus.ArtifactsBucket))
	if err != nil {
		t.Fatal(err)
	}
	config := bucket.CachedInfo().Config
	config.MaxAge, config.Duplicates = time.Minute, time.Minute
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if out, err := paste(commandFor(status.StreamAltered)).CombinedOutput(); err != nil {
		t.Errorf("provision --update: %v\n%s", err, out)
	}
	gone(status.StreamAltered)
}

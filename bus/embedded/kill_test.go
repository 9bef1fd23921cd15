//go:build unix

package embedded_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The test binary is also the server process that the test kills. serverEnv is then its
// data directory, listenEnv its address.
const (
	serverEnv = "STEVEDORE_TEST_SERVER_DIR"
	listenEnv = "STEVEDORE_TEST_SERVER_LISTEN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		s, err := embedded.Start(embedded.Config{Dir: dir, Listen: os.Getenv(listenEnv)})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(s.URL())
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the test's process ends
		os.Exit(3)
	}
	os.Exit(slow.RunWaiting(m))
}

// startServerProcess returns the URL of the server and a function that kills it. under is a
// command that runs the server.
func startServerProcess(t *testing.T, dir, listen string, under ...string) (serverURL string, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	under = append(under, exe)
	cmd := exec.Command(under[0], under[1:]...)
	cmd.Env = append(os.Environ(), serverEnv+"="+dir, listenEnv+"="+listen)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server process printed nothing: %v", err)
	}
	return strings.TrimSpace(line), kill
}

// A server that is killed repeatedly keeps every acknowledged message once, even if a power
// failure removed the batches that it staged in memory.
func TestServerKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills processes, across which the race detector finds nothing")
	}
	const kills, publishers = 5, 64 // enough publishers for batches
	dir := t.TempDir()
	serverURL, kill := startServerProcess(t, dir, "127.0.0.1:0")
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.Connect(t.Context(), bus.Config{Server: serverURL, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan string, 1<<20)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", p, i)
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "echo", "s", id), Body: []byte(id)}); err != nil && !errors.Is(err, bus.ErrSubjectExists) {
					t.Error(err)
					return
				}
				acknowledged <- id
			}
		})
	}
	for k := range kills {
		goal := len(acknowledged) + 1000
		bustest.WaitUntil(t, fmt.Sprint("publishes before kill ", k), func() bool { return len(acknowledged) >= goal })
		kill()
		if k%2 == 1 {
			staged, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "batches", "*"))
			for _, batch := range staged {
				err = errors.Join(err, os.RemoveAll(batch))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, kill = startServerProcess(t, dir, u.Host)
	}
	close(stop)
	wg.Wait()
	close(acknowledged)

	stored, batched := map[string]int{}, 0
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
	if err != nil {
		t.Fatal(err)
	}
	for seq := s.CachedInfo().State.FirstSeq; seq <= s.CachedInfo().State.LastSeq; seq++ {
		msg, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		stored[string(msg.Data)]++
		if msg.Header.Get("Nats-Batch-Id") != "" {
			batched++
		}
	}
	n := 0
	for id := range acknowledged {
		if n++; stored[id] != 1 {
			t.Errorf("%s was acknowledged and is stored %d times", id, stored[id])
		}
	}
	if batched == 0 { // how many come in batches depends on the machine
		t.Errorf("none of %d messages came in a batch", n)
	}
	t.Logf("%d acknowledged, %d in batches, %d kills", n, batched, kills)
}

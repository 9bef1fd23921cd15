package embedded_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// stagingOf returns the directory in memory where a stream's batches are staged, once it is
// in use.
func stagingOf(t *testing.T, data, stream string) (dir string) {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		t.Skip("this machine has no /dev/shm")
	}
	bustest.WaitUntil(t, "a link to memory", func() bool {
		target, err := os.Readlink(filepath.Join(data, "jetstream", "$G", "streams", stream, "batches"))
		dir = target
		return err == nil && strings.HasPrefix(dir, "/dev/shm/stevedore-batches-")
	})
	return dir
}

// publishResults publishes results of a session at the same time, and returns how many of
// the stored ones came in batches.
func publishResults(t *testing.T, b *bus.Bus, session string, count int) (batched int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			_, err := b.Publish(t.Context(), bus.Message{Subject: b.Result(session, fmt.Sprint(i)), Body: make([]byte, 1000)})
			if err != nil && !errors.Is(err, bus.ErrSubjectExists) { // of a batch that was stored in part, see below
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		msg, err := s.GetLastMsgForSubject(t.Context(), b.Result(session, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if msg.Header.Get("Nats-Batch-Id") != "" {
			batched++
		}
	}
	return batched
}

// waitForBatches publishes until messages come in batches: a busy machine may publish them one after the other.
func waitForBatches(t *testing.T, b *bus.Bus, session string) {
	t.Helper()
	tries := 0
	bustest.WaitUntil(t, "batches", func() bool {
		tries++
		return publishResults(t, b, fmt.Sprint(session, "-", tries), 200) > 0
	})
}

// The server stages batches in memory, also after a restart, and leaves nothing there.
func TestBatchesAreStagedInMemory(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var dirs []string
	for round := range 2 {
		s, err := embedded.Start(embedded.Config{Dir: data})
		if err != nil {
			t.Fatal(err)
		}
		b := bustest.Connect(t, s, bus.Config{})
		dirs = append(dirs, stagingOf(t, data, "STEVEDORE_RESULTS"))
		waitForBatches(t, b, fmt.Sprint("r", round))
		b.Close()
		s.Close()
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	if dirs[0] == dirs[1] {
		t.Error("a restart used the directory of another process")
	}
}

// The server removes the directory of a process that was killed, and no other.
func TestStagingOfAKilledServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	serverURL, kill := startServerProcess(t, data, "127.0.0.1:0")
	b, err := bus.Connect(t.Context(), bus.Config{Server: serverURL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	b.Close()
	dir := filepath.Dir(stagingOf(t, data, "STEVEDORE_RESULTS"))
	removed := func() bool {
		hourAgo := time.Now().Add(-time.Hour)
		if err := os.Chtimes(dir, hourAgo, hourAgo); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		bustest.Start(t, embedded.Config{})
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	if removed() {
		t.Error("another server removed the directory")
	}
	kill()
	// The server of another test may test the lock at the same time, and remove the directory a moment later.
	bustest.WaitUntil(t, "a server to remove the directory", removed)
}

// If the memory for batches is full, the client publishes one by one, and the server goes on.
func TestMemoryForBatchesIsFull(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := bustest.Connect(t, bustest.Start(t, embedded.Config{Dir: data, Log: bustest.Log(t)}), bus.Config{})
	dir := stagingOf(t, data, "STEVEDORE_RESULTS")
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Skip("cannot mount a small file system: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if batched := publishResults(t, b, "full", 200); batched > 0 {
		t.Errorf("%d of 200 messages came in batches", batched)
	}
	_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	waitForBatches(t, b, "again")
}

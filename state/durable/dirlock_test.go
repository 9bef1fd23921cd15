package durable

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// If this variable is set, the test binary locks that directory until it is killed.
const childEnv = "DURABLE_TEST_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, hold(dir))
	os.Exit(1)
}

// A process that was killed holds the lock until the system has ended it.
func TestLockDirWaitsForTheEndOfTheHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := LockDir(dir)
	must(t, err)
	time.AfterFunc(dirLockTimeout/8, func() { _ = held.Unlock() })
	next, err := LockDir(dir)
	must(t, err)
	must(t, next.Unlock())
}

// Commands that look at the same time whether a server runs do not take each other for one.
func TestDirLockedBesideOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := LockDir(dir)
	must(t, err)
	must(t, lock.Unlock())
	other, err := os.Open(filepath.Join(dir, lockName))
	must(t, err)
	defer other.Close()
	if free, err := tryShared(other); !free || err != nil {
		t.Fatalf("free %t, %v", free, err)
	}
	if locked, err := DirLocked(dir); locked || err != nil {
		t.Errorf("locked %t, %v", locked, err)
	}
}

// lockDir is LockDir in virtual time.
func lockDir(t *testing.T, dir string) (lock *DirLock, err error) {
	synctest.Test(t, func(*testing.T) { lock, err = LockDir(dir) })
	return lock, err
}

func TestLockDirNamesTheHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--token", "secret")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}

	_, err = lockDir(t, dir)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want a LockedError", err)
	}
	if h := locked.Holder; h.PID != cmd.Process.Pid || h.Since.IsZero() || h.Command != filepath.Base(os.Args[0])+" serve" {
		t.Errorf("got holder %+v, want pid %d", h, cmd.Process.Pid)
	}
	for _, want := range []string{dir, strconv.Itoa(cmd.Process.Pid), "serve"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if held, err := DirLocked(dir); !held || err != nil {
		t.Errorf("DirLocked = %v, %v; want true", held, err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q repeats the arguments", err)
	}

	// The lock ends with the process, although the file still names it.
	must(t, cmd.Process.Kill())
	cmd.Wait()
	for _, dir := range []string{dir, t.TempDir(), filepath.Join(dir, "none")} {
		if held, err := DirLocked(dir); held || err != nil {
			t.Errorf("DirLocked(%q) = %v, %v; want false", dir, held, err)
		}
	}
	lock, err := LockDir(dir)
	must(t, err)
	if _, err := lockDir(t, dir); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Errorf("a second lock in this process: got %v", err)
	}
	must(t, lock.Unlock())
	lock, err = LockDir(dir)
	must(t, err)
	must(t, lock.Unlock())
}

func hold(dir string) error {
	lock, err := LockDir(dir)
	if err != nil {
		return err
	}
	fmt.Println("locked")
	for { // until it is killed
		time.Sleep(time.Hour)
		runtime.KeepAlive(lock)
	}
}

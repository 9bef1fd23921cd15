//go:build unix

package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// childEnv is set for child processes of the test binary: the role and its argument.
const childEnv = "STATE_TEST_CHILD"

func TestMain(m *testing.M) {
	role, argument, _ := strings.Cut(os.Getenv(childEnv), " ")
	run, ok := map[string]func(path string) error{
		"count": childCount, "die": childDie, "full": childFull,
	}[role]
	if !ok {
		os.Exit(slow.RunWaiting(m))
	}
	if err := run(argument); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(t *testing.T, role, path string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--token", "secret")
	cmd.Env = append(os.Environ(), childEnv+"="+role+" "+path)
	cmd.Stderr = t.Output()
	return cmd
}

// Processes that save to the same file do not erase what another one wrote.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	var children []*exec.Cmd
	for range 2 {
		cmd := child(t, "count", path)
		must(t, cmd.Start())
		children = append(children, cmd)
	}
	f := openFile(t, path)
	for range 50 {
		must(t, countOne(f))
	}
	own := []int{os.Getpid()}
	for _, cmd := range children {
		must(t, cmd.Wait())
		own = append(own, cmd.Process.Pid)
	}
	for _, pid := range own {
		if got := get(t, f, fmt.Sprintf("own.%d", pid)).Value; got != "50" {
			t.Errorf("process %d: got %q, want 50", pid, got)
		}
	}
}

func childCount(path string) error {
	f, err := OpenFile(path, FileConfig{})
	for i := 0; i < 50 && err == nil; i++ {
		err = countOne(f)
	}
	return err
}

// countOne adds 1 to the fact of this process.
func countOne(f *File) error { return addOne(f, fmt.Sprintf("own.%d", os.Getpid())) }

func addOne(f *File, key string) error {
	old, err := f.Get(context.Background(), key)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(old.Value)
	return f.Set(context.Background(), map[string]string{key: strconv.Itoa(n + 1)})
}

// TestKilledWhileSaving kills processes at each operation of a save to the same file.
// The file has the last save that returned or the next one, and no temporary file is
// left.
func TestKilledWhileSaving(t *testing.T) {
	t.Parallel()
	kills := 50
	if testing.Short() {
		kills = 8
	}
	for n := range 4 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			killWhileSaving(t, n*kills, kills)
		})
	}
}

// killWhileSaving kills processes that save to a new file, early and late in their lives: 29 kills are at 29 operations.
func killWhileSaving(t *testing.T, first, kills int) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	saved := 0
	for i := range kills {
		cmd := child(t, "die", fmt.Sprintf("%d %s", 1+(first+7*i)%29, path))
		out, err := cmd.Output()
		if cmd.ProcessState == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("kill %d: the child ended with %v", i, err)
		}
		if lines := strings.Fields(string(out)); len(lines) > 0 {
			saved, _ = strconv.Atoi(lines[len(lines)-1])
		}
		got, _ := strconv.Atoi(get(t, openFile(t, path), "count").Value)
		if got != saved && got != saved+1 {
			t.Fatalf("kill %d: loaded %d after %d was saved", i, got, saved)
		}
		saved = got
		checkNoTemps(t, dir)
	}
	if saved < kills/2 {
		t.Errorf("%d saves in %d lives, want more", saved, kills)
	}
	if aside, _ := filepath.Glob(path + ".corrupt-*"); len(aside) > 0 {
		t.Errorf("found corrupt files: %v", aside)
	}
}

// childDie saves until the operation of its argument and kills itself there.
func childDie(argument string) error {
	at, path, _ := strings.Cut(argument, " ")
	n, err := strconv.Atoi(at)
	if err != nil {
		return err
	}
	f, err := OpenFile(path, FileConfig{})
	if err != nil {
		return err
	}
	f.hook = (&fault{at: n, mode: "kill"}).do
	for {
		if err := addOne(f, "count"); err != nil {
			return err
		}
		fact, err := f.Get(context.Background(), "count")
		if err != nil {
			return err
		}
		fmt.Println(fact.Value)
	}
}

// On a full disk only the save fails.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	set(t, openFile(t, path), "a", "before")
	must(t, child(t, "full", path).Run())
	f := openFile(t, path)
	if a, b := get(t, f, "a").Value, get(t, f, "b").Value; a != "after" || b != "" {
		t.Errorf("got a %q, b %.10q", a, b)
	}
	checkNoTemps(t, dir)
}

func childFull(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	f, err := OpenFile(path, FileConfig{})
	if err != nil {
		return err
	}
	err = f.Set(context.Background(), map[string]string{"a": "lost", "b": strings.Repeat("b", 60_000)})
	if !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("got %v, want %w", err, syscall.EFBIG)
	}
	if fact, err := f.Get(context.Background(), "a"); fact.Value != "before" || err != nil {
		return fmt.Errorf("got %+v, %w, want what was before", fact, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 2 || err != nil {
		return fmt.Errorf("found %v, %w, want the file and its lock", entries, err)
	}
	return f.Set(context.Background(), map[string]string{"a": "after"})
}

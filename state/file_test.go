package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// When a save returns, its value is on disk, also with 64 concurrent callers (US-008).
func TestAtomicSave(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	f := openFile(t, path)
	var wg sync.WaitGroup
	for saver := range 64 {
		key := fmt.Sprintf("saver.%d", saver)
		wg.Go(func() {
			for i := range 5 {
				value := strconv.Itoa(i + 1)
				if err := f.Set(t.Context(), map[string]string{key: value}); err != nil {
					t.Error(err)
				}
				data, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				doc, err := parseDocument(data)
				if err != nil {
					t.Error(err)
				} else if got := doc.Facts[key].Value; got != value {
					t.Errorf("%s: save %s returned, and the disk has %q", key, value, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestSavesThatWaitShareOneWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := openFile(t, path)
	r := &recorder{names: make(map[string]int)}
	f.hook = r.do
	saves := make([]map[string]string, 64)
	for i := range saves {
		saves[i] = map[string]string{fmt.Sprint(i): "x"}
	}
	for _, err := range together(t, f, saves) {
		must(t, err)
	}
	other := openFile(t, path)
	for i := range saves {
		if got := get(t, other, fmt.Sprint(i)).Value; got != "x" {
			t.Errorf("save %d: got %q", i, got)
		}
	}
	if r.files != 1 {
		t.Errorf("%d files were written, want 1", r.files)
	}
}

// If the context of each waiting caller ends, nothing is saved later.
func TestWaitingSaveIsWithdrawn(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	f.saving <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Set(ctx, map[string]string{"a": "1"}) }()
	waitForCallers(f, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	<-f.saving
	set(t, f, "b", "1")
	if got := get(t, f, "a").Value; got != "" {
		t.Errorf("the withdrawn save wrote %q", got)
	}
}

// Many sessions, or large ones, must not keep new ones from being recorded.
func TestFileFull(t *testing.T) {
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	t.Parallel()
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	fill := func(prefix, value string, n int) {
		values := make(map[string]string)
		for i := range n {
			values[fmt.Sprintf("last_channel.%s%d", prefix, i)] = value
		}
		must(t, f.Set(t.Context(), values))
	}
	check := func(want map[string]bool) {
		t.Helper()
		for session, known := range want {
			if got, err := LastChannel(t.Context(), f, session); got.IsZero() == known || err != nil {
				t.Errorf("session %q: got %+v, %v", session, got, err)
			}
		}
	}
	fill("old", "console", 200) // as many as removeOldest removes: which of equal age it removes is random
	fill("young", "console", maxFacts-200)
	must(t, SetLastChannel(t.Context(), f, "new", Channel{Name: "telegram"}, true))
	check(map[string]bool{"new": true, "old0": false, "old100": false, "young0": true})
	large := strings.Repeat("x", maxValue)
	fill("large", large, 200)
	fill("larger", large, 200)
	check(map[string]bool{"new": false, "larger0": true, "larger199": true, "": false})
	if info, err := os.Stat(f.path); err != nil || info.Size() > maxFileSize {
		t.Errorf("%v bytes, %v", info.Size(), err)
	}
}

// The channel of a session that a user uses each day stays in a full file, although it never changes.
func TestUsedChannelStays(t *testing.T) {
	t.Parallel()
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	synctest.Test(t, func(t *testing.T) {
		use := Use{Session: "main", Channel: Channel{Name: "telegram", ChatID: "1"}, OfChat: true}
		record := func() { must(t, Record(t.Context(), f, use, func() (bool, error) { return true, nil })) }
		record()
		for day := range 4 {
			others := map[string]string{}
			for i := range maxFacts / 2 {
				others[fmt.Sprintf("last_channel.s%d-%d", day, i)] = "webhook"
			}
			must(t, f.Set(t.Context(), others))
			for _, session := range []string{"main", ""} {
				if got, err := LastChannel(t.Context(), f, session); got.ChatID != "1" || err != nil {
					t.Errorf("day %d: the last channel of %q is %q, %v", day, session, got, err)
				}
			}
			time.Sleep(25 * time.Hour)
			record()
		}
	})
}

// A Set stores all its values, or it returns an error and changes nothing.
func TestSetThatCannotFit(t *testing.T) {
	t.Parallel()
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	set(t, f, "a", "1")
	for n, value := range map[int]string{10_500: "x", 300: strings.Repeat("x", maxValue)} {
		values := make(map[string]string)
		for i := range n {
			values[fmt.Sprint(i)] = value
		}
		if err := f.Set(t.Context(), values); err == nil || !strings.Contains(err.Error(), "do not fit") {
			t.Errorf("%d values: got %v, want an error", n, err)
		}
	}
	if a, other := get(t, f, "a").Value, get(t, f, "0").Value; a != "1" || other != "" {
		t.Errorf("got %q and %q, want nothing changed", a, other)
	}
}

func TestOpenFileThroughLink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	target, link := filepath.Join(dir, "real", "facts.json"), filepath.Join(dir, "state.json")
	must(t, os.WriteFile(target, []byte("{}"), 0o600))
	must(t, os.Symlink(target, link))
	set(t, openFile(t, link), "a", "1")
	if got := get(t, openFile(t, target), "a").Value; got != "1" {
		t.Errorf("got %q, want the link's target written", got)
	}
}

func TestOpenFileRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	for _, path := range []string{filepath.Join(dir, "d"), filepath.Join(dir, "none", "state.json")} {
		if _, err := OpenFile(path, FileConfig{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names it", path, err)
		}
	}
}

func TestLockTimeout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f, err := OpenFile(path, FileConfig{LockTimeout: 5 * time.Millisecond})
	must(t, err)
	unlock, err := durable.LockFile(t.Context(), path+".lock") // as another process would
	must(t, err)
	if err := f.Set(t.Context(), map[string]string{"a": "1"}); err == nil || !strings.Contains(err.Error(), ".lock") {
		t.Errorf("got %v, want an error that names the lock", err)
	}
	unlock()
	set(t, f, "a", "1")
}

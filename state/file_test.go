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
	"time"
)

// 64 savers, each of which looks at the disk when its save returns (US-008).
func TestAtomicSave(t *testing.T) {
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
				} else if got := doc.facts[key].Value; got != value {
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
	saves := make([]func() error, 64)
	for i := range saves {
		saves[i] = func() error {
			return f.Update(t.Context(), "count", func(old Fact) (string, error) { return old.Value + "x", nil })
		}
	}
	for _, err := range together(t, f, saves) {
		must(t, err)
	}
	if got := get(t, openFile(t, path), "count").Value; len(got) != 64 {
		t.Errorf("%d of 64 changes arrived", len(got))
	}
	if r.files != 1 {
		t.Errorf("%d files were written, want 1", r.files)
	}
}

func TestOneBadChangeDoesNotHurtTheOthers(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	refusal := errors.New("no")
	errs := together(t, f, []func() error{
		func() error { return f.Set(t.Context(), map[string]string{"a": "1"}) },
		func() error { return f.Update(t.Context(), "b", func(Fact) (string, error) { panic("broken") }) },
		func() error { return f.Update(t.Context(), "c", func(Fact) (string, error) { return "1", refusal }) },
		func() error { return f.Set(t.Context(), map[string]string{"d": "1"}) },
	})
	if errs[0] != nil || errs[3] != nil {
		t.Errorf("good saves: got %v, %v", errs[0], errs[3])
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "broken") || errs[2] != refusal {
		t.Errorf("bad saves: got %v, %v", errs[1], errs[2])
	}
	facts, err := f.List(t.Context(), "")
	if len(facts) != 2 || err != nil {
		t.Errorf("got %+v, %v, want a and d", facts, err)
	}
}

// A save whose context ends while it waits is not made.
func TestWaitingSaveIsWithdrawn(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	f.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := f.Set(ctx, map[string]string{"a": "1"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	<-f.turn
	set(t, f, "b", "1")
	if got := get(t, f, "a").Value; got != "" {
		t.Errorf("the withdrawn save wrote %q", got)
	}
}

// A flood of sessions must not keep new ones from being recorded, nor grow the
// file without end.
func TestFileFullOfSessions(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	fill := func(prefix string, n int) error {
		values := make(map[string]string)
		for i := range n {
			values[fmt.Sprintf("%s%d", prefix, i)] = "console"
		}
		return f.Set(t.Context(), values)
	}
	must(t, fill("last_channel.old", 1000))
	must(t, fill("last_channel.young", maxFacts-1001))
	set(t, f, "other", "1")
	for _, err := range []error{
		fill("more", 1),
		f.Update(t.Context(), "more", func(Fact) (string, error) { return "1", nil }),
	} {
		if !errors.Is(err, ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
	}
	must(t, SetLastChannel(t.Context(), f, "new", Channel{Name: "telegram"}))
	for session, known := range map[string]bool{"new": true, "old999": false, "young0": true} {
		if got, err := LastChannel(t.Context(), f, session); got.IsZero() == known || err != nil {
			t.Errorf("session %q: got %+v, %v", session, got, err)
		}
	}
	if get(t, f, "other").Value != "1" {
		t.Error("another fact was forgotten")
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
	unlock, err := openFile(t, path).lock() // as another process would
	must(t, err)
	if err := f.Set(t.Context(), map[string]string{"a": "1"}); err == nil || !strings.Contains(err.Error(), ".lock") {
		t.Errorf("got %v, want an error that names the lock", err)
	}
	unlock()
	set(t, f, "a", "1")
}

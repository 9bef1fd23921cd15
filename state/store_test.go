package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestFact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s := openFile(t, path)
	other := openFile(t, path) // opened before the write
	if got := get(t, s, "none"); got != (Fact{}) {
		t.Errorf("absent fact: got %+v", got)
	}
	start := time.Now()
	value := "telegram:1 \x00\"\n<é>"
	set(t, s, "a.b", value)
	for _, s := range []Store{s, other, openFile(t, path)} {
		got := get(t, s, "a.b")
		if got.Value != value || got.UpdatedAt.Before(start.Truncate(0)) || got.UpdatedAt.After(time.Now()) || got.UpdatedAt.Location() != time.UTC {
			t.Errorf("got %+v", got)
		}
	}
}

func TestEndedContext(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "state.json"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Set(ctx, map[string]string{"k": "v"}); !errors.Is(err, context.Canceled) {
		t.Errorf("set: got %v", err)
	}
	if got := get(t, s, "k"); got != (Fact{}) {
		t.Errorf("got %+v, want nothing written", got)
	}
}

// The test of what both stores do is in package kv.
func TestLastChannelRefuses(t *testing.T) {
	ctx, s := t.Context(), openFile(t, filepath.Join(t.TempDir(), "state.json"))
	for _, session := range []string{"a.b", "*", "a b", "a.>", "a/b", "é", "a\n", strings.Repeat("s", 300)} {
		if SetLastChannel(ctx, s, session, Channel{Name: "console"}, true) == nil {
			t.Errorf("session %q was accepted", session)
		}
		if _, err := LastChannel(ctx, s, session); err == nil {
			t.Errorf("session %q was read", session)
		}
	}
	for _, c := range []Channel{{}, {Name: "tele:gram"}, {Name: "a", ChatID: "\xff"}, {Name: "a", ChatID: strings.Repeat("c", maxValue)}} {
		if SetLastChannel(ctx, s, "s1", c, true) == nil {
			t.Errorf("channel %.20q was accepted", c.String())
		}
	}
	if err := SetLastChannel(ctx, s, "s1", Channel{Name: "a", ChatID: strings.Repeat("c", maxValue-2)}, true); err != nil {
		t.Error(err)
	}
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(path, FileConfig{})
	must(t, err)
	return f
}

func get(t *testing.T, s Store, key string) Fact {
	t.Helper()
	fact, err := s.Get(t.Context(), key)
	must(t, err)
	return fact
}

func set(t *testing.T, s Store, key, value string) {
	t.Helper()
	must(t, s.Set(t.Context(), map[string]string{key: value}))
}

func checkFile(t *testing.T, path, content string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if string(got) != content || err != nil {
		t.Errorf("%s: got %q, %v, want %q", filepath.Base(path), got, err, content)
	}
	if info, err := os.Stat(path); err == nil && info.Mode() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%s: mode %v, want 0600", filepath.Base(path), info.Mode())
	}
}

func checkNoTemps(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package durable

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAppendFile(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	for name, add := range map[string]func(line string) error{
		"a/log": func(line string) error { return AppendFile(filepath.Join(dir, "a", "log"), []byte(line), 0o600) },
		"b/log": func(line string) error { return d.AppendFile("b/log", []byte(line), 0o600) },
	} {
		if err := add("one\n"); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), 2); err != nil { // a crash
			t.Fatal(err)
		}
		if err := add("two\n"); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "on\ntwo\n" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "memory")); err != nil {
		t.Fatal(err)
	}
	if err := d.AppendFile("memory/log", []byte("x\n"), 0o600); err == nil {
		t.Error("appended outside the root")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := AppendFile("/dev/full", []byte("x\n"), 0o600); err == nil {
			t.Error("a full device took it")
		}
	}
}

// The half line that another process has written so far is not that of a crash.
func TestAppendWhileAnotherProcessDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := Lock(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if _, err := other.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("on")
	appended := make(chan error, 1)
	go func() { appended <- AppendFile(path, []byte("two\n"), 0o600) }()
	select {
	case err := <-appended:
		t.Errorf("it did not wait: %v", err)
		appended <- err
	case <-time.After(50 * time.Millisecond):
	}
	write("e\n")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-appended; err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "one\ntwo\n" {
		t.Errorf("%q, %v", data, err)
	}
}

package durable

import (
	"os"
	"path/filepath"
	"testing"
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

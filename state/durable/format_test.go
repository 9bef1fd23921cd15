package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	f := Format{Name: "test", Version: 1}
	dir := t.TempDir()
	if marked, err := f.Check(dir); marked || err != nil {
		t.Fatalf("a new directory: %v, %v", marked, err)
	}
	must(t, f.Mark(dir))
	if marked, err := f.Check(dir); !marked || err != nil {
		t.Errorf("marked: %v, %v", marked, err)
	}
	checkFile(t, filepath.Join(dir, FormatFile), `{"format":"test","version":1}`+"\n", 0o600)
	if marked, err := f.Check(filepath.Join(dir, "missing")); marked || err != nil {
		t.Errorf("a missing directory: %v, %v", marked, err)
	}
}

// A version that is another one, damaged or of another format is an error that names both
// versions, and the file stays as it is.
func TestFormatUnknown(t *testing.T) {
	f := Format{Name: "test", Version: 2}
	for content, want := range map[string]string{
		`{"format":"test","version":3}`:    `has version 3 of the format "test"`,
		`{"format":"test","version":1}`:    `has version 1 of the format "test"`,
		`{"format":"another","version":2}`: `has the format "another", version 2`,
		`{"format":"test","version":0}`:    "damaged",
		`{"format":"test","version":"2"}`:  "damaged",
		`{"format":"test","vers`:           "damaged",
		`{"version":2}`:                    "damaged",
		"":                                 "damaged",
		"\x00\x00\x00\x00":                 "damaged",
		strings.Repeat("x", 1<<20):         "damaged",
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, FormatFile)
		must(t, os.WriteFile(name, []byte(content), 0o600))
		_, err := f.Check(dir)
		if _, ok := errors.AsType[*FormatError](err); !ok || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `this program reads version 2 of the format "test"`) || len(err.Error()) > 8<<10 {
			t.Errorf("%.40q: %v", content, err)
		}
		checkFile(t, name, content, 0o600)
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, FormatFile), 0o700))
	if _, err := f.Check(dir); err == nil {
		t.Error("a directory in place of the file is no error")
	}
}

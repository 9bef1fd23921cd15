package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestCorruptFileIsMovedAside(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat(" ", 2*maxFileSize) + "{}"
	for _, content := range []string{"", "null", "[]", "{", `{"facts":[]}`, `{"facts":{"a":1}}`, `{"facts":{"a":{}}}`, `{"revision":-1}`, `{} {}`, "\x00\x00", huge} {
		t.Run(fmt.Sprintf("%.20q", content), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.json")
			must(t, os.WriteFile(path, []byte(content), 0o600))
			var log bytes.Buffer
			f, err := OpenFile(path, FileConfig{Log: zerolog.New(&log)})
			must(t, err)
			aside, err := filepath.Glob(path + ".corrupt-*")
			must(t, err)
			if len(aside) != 1 {
				t.Fatalf("moved aside: %v, want one file", aside)
			}
			checkFile(t, aside[0], content)
			if !strings.Contains(log.String(), aside[0]) || !strings.Contains(log.String(), `"level":"error"`) {
				t.Errorf("logged %q, want an error that names the file", log.String())
			}
			set(t, f, "a", "1")
			if got := get(t, openFile(t, path), "a").Value; got != "1" {
				t.Errorf("afterwards: got %q", got)
			}
		})
	}
}

// A file that was corrupted after it was read does not lose the facts in memory.
func TestFileCorruptedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := openFile(t, path)
	set(t, f, "a", "1")
	must(t, os.WriteFile(path, []byte(`{"facts": {`), 0o600))
	if got := get(t, f, "a").Value; got != "1" {
		t.Errorf("got %q, want what was last read", got)
	}
	checkFile(t, path, `{"facts": {`)

	f.hook = (&fault{at: 1}).do
	if err := f.Set(t.Context(), map[string]string{"lost": "1"}); !errors.Is(err, errFault) {
		t.Errorf("got %v, want the fault", err)
	}
	f.hook = nil
	if a, lost := get(t, f, "a").Value, get(t, f, "lost").Value; a != "1" || lost != "" {
		t.Errorf("after a failed save: got a %q, lost %q", a, lost)
	}

	set(t, f, "b", "2")
	other := openFile(t, path)
	if a, b := get(t, other, "a").Value, get(t, other, "b").Value; a != "1" || b != "2" {
		t.Errorf("got a %q, b %q", a, b)
	}
	if aside, _ := filepath.Glob(path + ".corrupt-*"); len(aside) != 1 {
		t.Errorf("moved aside: %v, want one file", aside)
	}
}

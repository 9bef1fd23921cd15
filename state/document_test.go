package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFileIsReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	must(t, SetLastChannel(t.Context(), openFile(t, path), "s1", Channel{Name: "telegram", ChatID: "42"}))
	data, err := os.ReadFile(path)
	must(t, err)
	var got struct {
		Revision  int       `json:"revision"`
		UpdatedAt time.Time `json:"updated_at"`
	}
	must(t, json.Unmarshal(data, &got))
	at, _ := got.UpdatedAt.MarshalJSON()
	want := strings.ReplaceAll(`{
  "facts": {
    "last_channel": {
      "value": "telegram:42",
      "updated_at": NOW
    },
    "last_channel.s1": {
      "value": "telegram:42",
      "updated_at": NOW
    },
    "last_session.3f40462915a3e6026a4d790127b95ded": {
      "value": "s1",
      "updated_at": NOW
    },
    "last_session.65d845547d3df3f13741413da574f3a2": {
      "value": "s1",
      "updated_at": NOW
    }
  },
  "revision": 1,
  "updated_at": NOW,
  "version": 1
}
`, "NOW", string(at))
	if string(data) != want {
		t.Errorf("got\n%s\nwant\n%s", data, want)
	}
	checkFile(t, path, want) // only the owner may read chat ids
}

func TestUnknownFieldsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(path, []byte(`{"theme": {"dark": 2.50}, "Facts": {"a": 1}, "last_channel": "old:1", "revision": 7,
		"facts": {"a": {"value": "1", "note": "mine"}, "b": {"value": "2", "revision": 7}}}`), 0o600))
	f := openFile(t, path)
	set(t, f, "a", "3")
	set(t, f, "c", "4")
	if a, b := get(t, f, "a").Value, get(t, f, "b").Value; a != "3" || b != "2" {
		t.Errorf("got a %q, b %q", a, b)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	for _, want := range []string{`"dark": 2.50`, `"last_channel": "old:1"`, `"Facts": {`, `"revision": 9`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s is missing from\n%s", want, data)
		}
	}
	if !json.Valid(data) {
		t.Errorf("not JSON: %s", data)
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add([]byte(`{"revision":2,"updated_at":"2026-01-02T15:04:05Z","facts":{"a.b":{"value":"x","revision":2}},"more":[1]}`))
	f.Add([]byte(`{"Facts":{"a":{"value":"x","Value":"y"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := parseDocument(data)
		if err != nil {
			return
		}
		next, encoded, err := doc.with(map[string]string{"new": "fact"}, time.Unix(0, 0).UTC())
		if err != nil {
			return // a year after 9999
		}
		again, err := parseDocument(encoded)
		if err != nil {
			t.Fatalf("%q does not parse again: %v", encoded, err)
		}
		if len(again.facts) != len(next.facts) || len(again.other) != len(doc.other) {
			t.Fatalf("%q lost fields", encoded)
		}
		for key, fact := range next.facts {
			if got := again.facts[key]; got.Value != fact.Value || !got.UpdatedAt.Equal(fact.UpdatedAt) {
				t.Errorf("fact %q: got %+v, want %+v", key, got, fact)
			}
		}
	})
}

// A file of another version is neither read as empty nor moved aside nor overwritten.
func TestUnknownVersionIsRefused(t *testing.T) {
	for _, version := range []string{"2", "0", `"one"`, "1.5", "null", "{}"} {
		path := filepath.Join(t.TempDir(), "state.json")
		text := `{"version": ` + version + `, "facts": {"a": {"value": "1"}}}`
		f := openFile(t, path)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		_, openErr := OpenFile(path, FileConfig{})
		_, getErr := f.Get(t.Context(), "a")
		for name, err := range map[string]error{"open": openErr, "get": getErr, "set": f.Set(t.Context(), map[string]string{"a": "2"})} {
			if err == nil || !strings.Contains(err.Error(), "has version "+version+"; this program reads version 1") {
				t.Errorf("%s of version %s: %v", name, version, err)
			}
		}
		checkFile(t, path, text)
	}
}

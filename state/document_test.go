package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFileIsReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	must(t, SetLastChannel(t.Context(), openFile(t, path), "s1", Channel{Name: "telegram", ChatID: "42"}, true))
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
		if len(again.Facts) != len(next.Facts) {
			t.Fatalf("%q lost facts", encoded)
		}
		for key, fact := range next.Facts {
			if got := again.Facts[key]; got.Value != fact.Value || !got.UpdatedAt.Equal(fact.UpdatedAt) {
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

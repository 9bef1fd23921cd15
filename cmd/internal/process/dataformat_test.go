package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/state/durable"
)

func embed(dir string) error {
	_, closeServer, err := Embed(embedded.Config{Dir: dir, NoSync: true})
	if err == nil {
		err = closeServer()
	}
	return err
}

// A data directory of another version stays as it is.
func TestUnknownDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := embed(dir); err != nil {
		t.Fatal(err)
	}
	for mark, want := range map[string]string{
		`{"format":"data directory","version":7}`: `has version 7 of the format "data directory"; this program reads version 1`,
		`version 1`: "damaged",
	} {
		name := filepath.Join(dir, durable.FormatFile)
		if err := os.WriteFile(name, []byte(mark), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := embed(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", mark, err, want)
		}
		if got, err := os.ReadFile(name); string(got) != mark || err != nil {
			t.Errorf("the file became %q, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "jetstream")); err != nil {
			t.Error(err)
		}
	}
}

// A data directory with streams but without a format version stays as it is, and the error
// says how to restore the version.
func TestLostVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, closeServer, err := Embed(embedded.Config{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Connect(t, s, bus.Config{})
	if _, err := b.JetStream().Publish(t.Context(), b.Call("default", "echo", "default", "waiting"), []byte(`{"id":"waiting"}`)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := errors.Join(closeServer(), os.Remove(filepath.Join(dir, durable.FormatFile))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := embed(dir)
		if _, ok := errors.AsType[*durable.FormatError](err); !ok || !strings.Contains(err.Error(), `write {"format":"data directory","version":1} into stevedore.format`) {
			t.Errorf("got %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, durable.FormatFile), []byte(`{"format":"data directory","version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, closeServer, err = Embed(embedded.Config{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	b = bustest.Connect(t, s, bus.Config{})
	if n := bustest.Waiting(t, b); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	b.Close()
	if err := closeServer(); err != nil {
		t.Error(err)
	}
}

package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// formerData makes a data directory as unreleased versions did, for example that of the
// commit 358fcd4: without a format version. It contains one call.
func formerData(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Dial(t, s, bus.Config{})
	former := jetstream.StreamConfig{Name: b.StreamName(bus.Calls), Subjects: []string{"stevedore.call.>"}, Retention: jetstream.WorkQueuePolicy}
	if _, err := b.JetStream().CreateStream(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), b.ShortCall("default", "echo"), []byte(`{"id":"former"}`)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	s.Close()
	for name, text := range map[string]string{"state.json": `{"facts":{}}`, "state.json.lock": "", "artifacts/.blobs/0123": "text", "mine.txt": "mine"} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func embed(t *testing.T, dir string) (log string, err error) {
	t.Helper()
	var out strings.Builder
	_, closeServer, err := Embed(embedded.Config{Dir: dir, NoSync: true, Log: zerolog.New(&out)})
	if err == nil {
		err = closeServer()
	}
	return out.String(), err
}

// The data of an unreleased version moves aside whole, also if an earlier start was
// interrupted. A server that starts there has its calls.
func TestFormerDataMovesAside(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		dir := formerData(t)
		if interrupted {
			if err := errors.Join(os.Mkdir(filepath.Join(dir, formerDir), 0o700), os.Rename(filepath.Join(dir, "jetstream"), filepath.Join(dir, formerDir, "jetstream"))); err != nil {
				t.Fatal(err)
			}
		}
		former := filepath.Join(dir, formerDir)
		for start := range 2 {
			log, err := embed(t, dir)
			if err != nil || strings.Contains(log, former) != (start == 0) {
				t.Fatalf("start %d: %v, log %s", start, err, log)
			}
		}
		for _, name := range formerFiles {
			if name == "server.url" {
				continue
			}
			if _, err := os.Stat(filepath.Join(former, name)); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "mine.txt")); err != nil {
			t.Error("a file of the user was moved: ", err)
		}
		s, err := embedded.Start(embedded.Config{Dir: former, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		b := bustest.Dial(t, s, bus.Config{})
		if n := bustest.Messages(t, b, bus.Calls); n != 1 {
			t.Errorf("the former directory has %d calls, want 1", n)
		}
		b.Close()
		s.Close()
	}
}

// A data directory of another version stays as it is.
func TestUnknownDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := embed(t, dir); err != nil {
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
		if _, err := embed(t, dir); err == nil || !strings.Contains(err.Error(), want) {
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

// A data directory of this version that has lost its format version is not taken for one of
// an unreleased version: it stays as it is, and the error says how to restore the version.
func TestLostVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, closeServer, err := Embed(embedded.Config{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Connect(t, s, bus.Config{})
	if _, err := b.JetStream().Publish(t.Context(), b.ShortCall("default", "echo"), []byte(`{"id":"waiting"}`)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := errors.Join(closeServer(), os.Remove(filepath.Join(dir, durable.FormatFile))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := embed(t, dir)
		if _, ok := errors.AsType[*durable.FormatError](err); !ok || !strings.Contains(err.Error(), `write {"format":"data directory","version":1} into stevedore.format`) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, formerDir)); err == nil {
		t.Error("the files were moved aside")
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

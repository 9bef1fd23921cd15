package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// A command that joins the worker of a data directory learns which of its settings differ, and does
// not read settings in another format.
func TestCheckJoined(t *testing.T) {
	dir := t.TempDir()
	options := func(args ...string) *Options {
		o, flags := new(Options), pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(flags)
		if err := flags.Parse(append(args, "--data", dir)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	withdraw, err := options("--slots", "3").PublishServer("nats://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{"--slots=3": "", "--tools=shell": "its --tools differs"} {
		if err := options(arg).CheckJoined(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	name := filepath.Join(dir, settingsFile)
	data, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strings.Replace(string(data), `"v":1`, `"v":2`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := options("--slots=3").CheckJoined(); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("another version: %v", err)
	}
	// A command that found the worker just before it stopped runs the next one itself.
	if err := withdraw(); err != nil {
		t.Fatal(err)
	}
	if err := options("--tools=shell").CheckJoined(); err != nil {
		t.Errorf("the worker stops: %v", err)
	}
}

// While a process starts in the data directory of one that was killed, commands get neither the URL of that one, whose
// port another program may have, nor its settings.
func TestFilesOfAKilledProcess(t *testing.T) {
	o, flags := new(Options), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--data", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.PublishServer("nats://user:secret@127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	_, closeServer, err := Embed(embedded.Config{Dir: o.Connection.Data, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeServer() }() // of a test
	if url, err := o.Connection.EmbeddedURL(); err == nil || !strings.Contains(err.Error(), "is starting or stopping") {
		t.Errorf("the URL %q, %v", url, err)
	}
	if _, err := os.Stat(filepath.Join(o.Connection.Data, settingsFile)); err == nil {
		t.Error("the settings are still there")
	}
}

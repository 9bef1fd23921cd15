package serverconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

func config(t *testing.T, tenants ...Tenant) Config {
	t.Helper()
	subjects, err := bus.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	return Config{Subjects: subjects, Listen: "127.0.0.1:4222", Store: t.TempDir(), Tenants: tenants}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]func(c *Config){
		"no tenant":               func(c *Config) { c.Tenants = nil },
		"a dot in a name":         func(c *Config) { c.Tenants[0].Name = "a.b" },
		"a name like a flag":      func(c *Config) { c.Tenants[0].Name = "-red" },
		"a long name":             func(c *Config) { c.Tenants[0].Name = strings.Repeat("r", 65) },
		"a wildcard":              func(c *Config) { c.Tenants[0].Sessions = []string{"*"} },
		"a session with a quote":  func(c *Config) { c.Tenants[0].Sessions = []string{`a" } `} },
		"a queue with everything": func(c *Config) { c.Tenants[0].Queues = []string{">"} },
		"a bridge of everything":  func(c *Config) { c.Tenants[0].Bridges = []string{"a.>"} },
		"an empty session":        func(c *Config) { c.Tenants[0].Sessions = []string{""} },
		"one tenant twice":        func(c *Config) { c.Tenants = append(c.Tenants, c.Tenants[0]) },
		"an account of a client":  func(c *Config) { c.Tenants = append(c.Tenants, Tenant{Name: "red-readonly"}) },
		"a login twice": func(c *Config) {
			c.Tenants[0].Sessions = []string{"s1-worker"} // red-session-s1-worker
			c.Tenants = append(c.Tenants, Tenant{Name: "red-session-s1"})
		},
		"the system account":   func(c *Config) { c.Tenants[0].Name = "SYS" },
		"an open address":      func(c *Config) { c.Listen = "0.0.0.0:4222" },
		"every address":        func(c *Config) { c.Listen = ":4222" },
		"a key without a file": func(c *Config) { c.Cert = "x" },
		"no port":              func(c *Config) { c.Listen = "localhost" },
	} {
		cfg := config(t, Tenant{Name: "red"})
		if err := cfg.Check(); err != nil {
			t.Fatal(err)
		}
		if c(&cfg); cfg.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The console retries a dead call under its own subject, which the calls stream may still
// store: it removes that message first. It may purge nothing and remove no other stream.
func TestConsoleMayReplaceACall(t *testing.T) {
	cfg := config(t, Tenant{Name: "red"})
	got := cfg.console("red").publish
	for subject, want := range map[string]bool{
		"$JS.API.STREAM.MSG.DELETE." + cfg.Subjects.StreamName(bus.Calls):   true,
		"$JS.API.STREAM.MSG.DELETE." + cfg.Subjects.StreamName(bus.Dead):    true,
		"$JS.API.STREAM.MSG.DELETE." + cfg.Subjects.StreamName(bus.Results): false,
		"$JS.API.STREAM.PURGE." + cfg.Subjects.StreamName(bus.Calls):        false,
		"$JS.API.STREAM.DELETE." + cfg.Subjects.StreamName(bus.Calls):       false,
	} {
		if allowed := slices.ContainsFunc(got, func(p string) bool { return server.SubjectMatchesFilter(subject, p) }); allowed != want {
			t.Errorf("%s is allowed: %t, want %t", subject, allowed, want)
		}
	}
}

// The read-only login may ask the workers for what changes nothing, and for nothing else.
func TestReadOnlyMayAsk(t *testing.T) {
	cfg := config(t, Tenant{Name: "red"})
	got := cfg.readOnly("red").users[0].publish
	for _, op := range rpc.Operations() {
		subject := cfg.Subjects.RPC(strings.NewReplacer("SESSION", "s1", "QUEUE", "q", "TOOL", "t", "CALL", "c").Replace(op.Subject))
		want := !op.Changes && op.Subject != ""
		if allowed := slices.ContainsFunc(got, func(p string) bool { return server.SubjectMatchesFilter(subject, p) }); allowed != want {
			t.Errorf("%s (%s) is allowed: %t, want %t", op.Name, subject, allowed, want)
		}
	}
}

// A second run keeps the keys, makes those of new clients, and replaces a deleted one. It
// never replaces a file of somebody else.
func TestWriteAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	write := func(c Config) map[string]bool {
		t.Helper()
		written, err := Write(dir, c)
		if err != nil {
			t.Fatal(err)
		}
		isNew := map[string]bool{}
		for _, w := range written {
			isNew[strings.TrimSuffix(filepath.Base(w.Seed), ".nk")] = w.New
		}
		opts, err := server.ProcessConfigFile(filepath.Join(dir, File))
		if err != nil {
			t.Fatalf("the server refuses the file: %v", err)
		}
		if noticed := opts.PingInterval * time.Duration(opts.MaxPingsOut+1); noticed == 0 || noticed > 30*time.Second {
			t.Errorf("the server notices after %s that a connection is gone", noticed)
		}
		return isNew
	}
	if first := write(config(t, Tenant{Name: "red"})); !first["red-worker"] || !first["system"] {
		t.Errorf("first: %v", first)
	}
	second := write(config(t, Tenant{Name: "red", Sessions: []string{"s1"}, MaxBytes: 1 << 30}, Tenant{Name: "blue"}))
	if second["red-worker"] || !second["red-session-s1"] || !second["blue-worker"] {
		t.Errorf("second: %v", second)
	}
	if err := os.Remove(filepath.Join(dir, "red-worker.nk")); err != nil {
		t.Fatal(err)
	}
	if third := write(config(t, Tenant{Name: "red"})); !third["red-worker"] || third["red-operator"] {
		t.Errorf("third: %v", third)
	}
	if err := os.WriteFile(filepath.Join(dir, "red-worker.nk"), []byte("no seed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, config(t, Tenant{Name: "red"})); err == nil || !strings.Contains(err.Error(), "red-worker.nk") {
		t.Errorf("a damaged key: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, File), []byte("port: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, config(t, Tenant{Name: "red"})); err == nil || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("a file of somebody else: %v", err)
	}
}

// The settings have a version. Those of the first files have none.
func TestReadSettings(t *testing.T) {
	dir := t.TempDir()
	want := config(t, Tenant{Name: "red", Queues: []string{"q"}})
	if _, err := Write(dir, want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, settingsFile)
	written, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(written), `"v": 1`) {
		t.Fatalf("settings: %s, %v", written, err)
	}
	for text, problem := range map[string]string{
		string(written): "",
		strings.Replace(string(written), `"v": 1,`, "", 1):      "",
		strings.Replace(string(written), `"v": 1`, `"v": 2`, 1): "has version 2, and this program reads version 1",
		`{"v": 1`: "is damaged",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, ok, err := Read(dir)
		if !ok || problem == "" && (err != nil || len(got.Tenants) != 1 || got.Tenants[0].Queues[0] != "q" || got.Listen != want.Listen) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if problem != "" && (err == nil || !strings.Contains(err.Error(), path+" "+problem)) {
			t.Errorf("%s: %v, want %q", text, err, problem)
		}
	}
}

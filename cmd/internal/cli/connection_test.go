package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// A process locks the data directory before it publishes the URL of its server, and keeps it locked after it has withdrawn
// the URL: calls use their grace time then.
func TestServerThatStops(t *testing.T) {
	c := &Connection{Data: t.TempDir()}
	lock, err := durable.LockDir(c.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if _, err := c.EmbeddedURL(); err == nil || !strings.Contains(err.Error(), "is starting or stopping") {
		t.Errorf("while it stops: %v", err)
	}
}

// A command that waits for the bus does so for the --timeout that is given, also if it is the default of other commands.
func TestTimeoutThatIsGiven(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 30 * time.Second, "--timeout=5s": 5 * time.Second, "--timeout=1s": time.Second} {
		var c Connection
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(flags)
		if err := flags.Parse(strings.Fields(text)); err != nil || c.away() != want {
			t.Errorf("%q: waits %s, %v; want %s", text, c.away(), err, want)
		}
	}
}

// A text that leaves the host names the bus, and no credential of this process.
func TestCommandForOthers(t *testing.T) {
	c := Connection{Config: bus.Config{Server: "nats://user:secret@bus.example.com", Prefix: "acme", Creds: "/keys/worker.creds", NKey: "/keys/worker.nk",
		User: "worker", Password: "secret", Token: "secret"}}
	if got, want := c.CommandForOthers("approvals", "yes", "c 1"), "stevedore approvals yes 'c 1' --server nats://xxxxx@bus.example.com --prefix acme"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	up := Connection{Data: "/srv/my data"}
	if got, want := up.CommandForOthers("approvals", "ls"), "stevedore approvals ls --data '/srv/my data'"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

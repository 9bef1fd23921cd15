package cli

import (
	"strings"
	"testing"

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

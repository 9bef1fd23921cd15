package process

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// An address without a host is the loopback interface, as for --listen, --console and --http.
func TestHealthListensOnLoopback(t *testing.T) {
	var log strings.Builder
	none := func() error { return nil }
	stop, err := listenHealth(":0", "w", zerolog.New(&log), none, none, http.NotFound)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if !strings.Contains(log.String(), `"address":"127.0.0.1:`) {
		t.Error(log.String())
	}
}

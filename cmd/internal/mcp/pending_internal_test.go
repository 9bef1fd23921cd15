package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/tools"
)

// A client is not told that no worker takes its call while workers stand still: one of them may run it.
func TestPendingCallOfASilentWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		c := &client{gateway: New(b, Config{}), session: "s"}
		text := func() string {
			return c.pending(t.Context(), tools.Call{ID: "c", Session: "s", Tool: "x"}, "q").Content[0].(*sdk.TextContent).Text
		}
		if got := text(); !strings.HasPrefix(got, "The call waits, because no worker takes calls") {
			t.Errorf("without workers: %s", got)
		}
		bustest.Subscribe(t, b, b.RPC("offer"))
		if got := text(); !strings.HasPrefix(got, "The call waits, or a worker that does not answer now has it. Its id is c.") {
			t.Errorf("with a silent worker: %s", got)
		}
	})
}

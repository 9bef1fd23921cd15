package wrap

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// Many calls that end at the same time, each just after progress, do not wait for one another.
func TestGapAfterProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 200
		host, client := Pipe()
		server, link := Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- Run(t.Context(), client, Config{Name: "test server", Server: func(context.Context) (Link, error) { return link, nil }})
		}()
		send := func(l Link, format string, args ...any) {
			t.Helper()
			m, err := wire.Parse(fmt.Appendf(nil, format, args...))
			if err == nil {
				err = l.Send(m)
			}
			if err != nil {
				t.Error(err)
			}
		}
		progress := make(map[string]time.Time)
		responses := make(chan time.Duration, calls)
		go func() {
			for {
				m, err := host.Receive()
				switch {
				case err != nil:
					return
				case m.Method == "notifications/progress":
					progress[string(wire.Get(m.Params, "progressToken"))] = time.Now()
				case m.IsResponse():
					responses <- time.Since(progress[m.ID])
				}
			}
		}()
		go func() {
			for n := range calls {
				send(host, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":%d}}}`, n+1, n+1)
			}
		}()
		for range calls {
			if _, err := server.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for n := range calls {
			send(server, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, n+1)
			send(server, `{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, n+1)
		}
		for range calls {
			if gap := <-responses; gap < progressGap {
				t.Errorf("a response came %v after its progress, want at least %v", gap, progressGap)
			}
		}
		if took := time.Since(began); took >= 2*progressGap { // virtual time
			t.Errorf("%d responses took %v, want the gap of one", calls, took)
		}
		host.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

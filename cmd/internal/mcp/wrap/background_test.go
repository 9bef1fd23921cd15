package wrap

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// inBackground calls a tool and returns the id with which the client waits.
func (s *session) inBackground(t *testing.T, name string, args map[string]any) string {
	t.Helper()
	answer := texts(s.call(t, name, args))
	checkContains(t, answer, name+" has run for 20ms and goes on", "read_result(id, offset) waits for it")
	found := regexp.MustCompile(`the artifact '([^']+)'`).FindStringSubmatch(answer)
	if found == nil {
		t.Fatalf("no id in %q", answer)
	}
	return found[1]
}

func (s *session) read(t *testing.T, args map[string]any) string {
	t.Helper()
	return texts(s.call(t, artifacts.ReadResult, args))
}

func goOn(t *testing.T, s *session) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A call that takes long is answered with an id, and goes on. The client waits for its result,
// and reads it.
func TestCallInBackground(t *testing.T) {
	t.Parallel()
	var whole, shown, read atomic.Int64
	s := wrapServer(t, "sdk", func(cfg *Config) {
		cfg.BackgroundAfter, cfg.Count = 20*time.Millisecond, func(c Count) {
			whole.Add(c.Whole)
			shown.Add(c.Shown)
			read.Add(c.Read)
		}
	})
	small := s.inBackground(t, "slow", map[string]any{"lines": 3})
	big := s.inBackground(t, "slow", map[string]any{"lines": 5000})
	failed := s.inBackground(t, "slow", map[string]any{"lines": 2, "fail": true})
	for _, name := range []string{"id", "artifact_id", "knowledge_id", "artifact"} { // as models name it
		checkContains(t, s.read(t, map[string]any{name: small}), "The call still runs (", "Read it again")
	}
	goOn(t, s)
	eventually := func(args map[string]any) (got string) {
		s.await(t, "the result", func() bool {
			got = s.read(t, args)
			return !strings.Contains(got, "still runs")
		})
		return got
	}
	checkContains(t, eventually(map[string]any{"id": small}), "\"line\" 2")
	checkContains(t, eventually(map[string]any{"id": big, "grep": "line\" 4321$"}), "Found 1 match(es)")
	checkContains(t, eventually(map[string]any{"id": failed}), "slow failed:", "\"line\" 1")
	checkContains(t, s.read(t, map[string]any{"id": small, "cancel": true}), "\"line\" 2") // too late

	// The results are counted, and what the model got of them as answers and as pages.
	s.await(t, "the counts", func() bool { return whole.Load() > 100_000 && shown.Load() > 300 && read.Load() > 200 })
	if shown.Load() > 1000 {
		t.Errorf("the three answers have %d characters", shown.Load())
	}
}

// A call that is short enough is answered as without the flag.
func TestCallBeforeTheBackground(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk", func(cfg *Config) { cfg.BackgroundAfter = testTimeout })
	goOn(t, s)
	if got := texts(s.call(t, "slow", map[string]any{"lines": 1})); got != bigText(1) {
		t.Errorf("a short call: %q", got)
	}
}

// The client was told to wait, so a late cancellation of its request changes nothing.
func TestLateCancellation(t *testing.T) {
	t.Parallel()
	j := &job{id: "x", done: make(chan struct{})}
	r := &request{Message: wire.Request("1", "tools/call", nil), job: j, timer: time.NewTimer(time.Hour), queued: true}
	p := &proxy{pending: map[string]*request{r.ID: r}}
	p.fromClientNotification(wire.Request("", "notifications/cancelled", fields{"requestId": 1}))
	if r.cancelled || p.pending[r.ID] != r {
		t.Error("the call in the background was cancelled")
	}
}

// The model ends a call that it does not want any more.
func TestCancelInBackground(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk", func(cfg *Config) { cfg.BackgroundAfter = 20 * time.Millisecond })
	id := s.inBackground(t, "wait", nil)
	s.await(t, "the tool to run", func() bool { return s.count(t, "waiting") == 1 })
	checkContains(t, s.read(t, map[string]any{"id": id, "cancel": true}), "wait was cancelled. It may have acted")
	s.await(t, "the server to stop", func() bool { return s.count(t, "cancelled") == 1 })
	checkContains(t, s.read(t, map[string]any{"id": id}), "wait was cancelled")
}

// The server does not answer a call: its artifact says so.
func TestServerHangsInBackground(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := wrapServer(t, "hang", func(cfg *Config) {
		cfg.BackgroundAfter, cfg.CallTimeout = 20*time.Millisecond, 5*time.Second
	})
	id := s.inBackground(t, "hang", nil)
	s.await(t, "the end", func() bool {
		return strings.Contains(s.read(t, map[string]any{"id": id}), "did not respond within 5s")
	})
}

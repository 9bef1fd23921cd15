package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// slowPage answers no request until released, and then all of them.
type slowPage struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	released bool
}

func newSlowPage(t *testing.T) *slowPage {
	p := &slowPage{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests++
		released := p.released
		p.mu.Unlock()
		if !released {
			<-r.Context().Done()
			return
		}
		fmt.Fprintln(w, "the page")
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *slowPage) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// A single "up" that was killed, or stopped, takes up everything when it starts again, long
// before the leases of an hour end: a once-only call is unknown, and all others continue.
func TestRestartWithoutDeadTime(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(end.String(), func(t *testing.T) {
			page := newSlowPage(t)
			u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
			script := filepath.Join(t.TempDir(), "turns.jsonl")
			turns := strings.ReplaceAll(`{"for":"^direct"}
{"tools":[{"name":"web_fetch","input":{"url":"URL/agent"}}]}
{"expect":["the page"],"text":"read it"}
{"for":"^delegate"}
{"tools":[{"name":"subagent","input":{"task":"child"}},{"name":"spawn","input":{"task":"child"}}]}
{"expect":["born"],"text":"all done"}
{"for":"^child"}
{"tools":[{"name":"web_fetch","input":{"url":"URL/child"}}]}
{"expect":["the page"],"text":"born"}
`, "URL", page.URL)
			if err := os.WriteFile(script, []byte(turns), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func() *process {
				p, err := launch(append(u.args(), "--model", "script:"+script, "--web-allow", "127.0.0.0/8", "--grace", "1s", "--lease", "1h",
					"--heartbeat-enabled=false")...)
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			p := run()
			c := connect(t, urlOf(t, p))
			c.publish("stevedore.call.default.shell", `{"id":"once","session":"s","args":{"command":"touch began; sleep 1000"}}`)
			c.publish("stevedore.call.default.web_fetch", fmt.Sprintf(`{"id":"fetch","session":"s","args":{"url":"%s/plain"}}`, page.URL))
			c.publish("stevedore.call.agent.agent", `{"id":"direct","session":"d","args":{"prompt":"direct"}}`)
			c.publish("stevedore.call.agent.agent", `{"id":"delegate","session":"e","args":{"prompt":"delegate"}}`)
			for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(filepath.Join(u.workspace, "began")); err == nil && page.asked() == 4 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the calls did not start: %d requests", page.asked())
				}
			}
			c.nc.Close()
			page.mu.Lock()
			page.released = true
			page.mu.Unlock()
			_ = p.cmd.Process.Signal(end) // the process is running
			<-p.exited

			p = run()
			defer func() {
				if err := p.stop(); err != nil {
					t.Errorf("up: %v\n%s", err, p.stderr)
				}
			}()
			c = connect(t, urlOf(t, p))
			if e := c.stored("STEVEDORE_RESULTS", "stevedore.result.s.once"); e.text("outcome") != "unknown" {
				t.Errorf("the once-only call: %v", e)
			}
			for call, want := range map[string]string{"s.fetch": "the page", "d.direct": "read it", "e.delegate": "all done"} {
				if e := c.stored("STEVEDORE_RESULTS", "stevedore.result."+call); !strings.Contains(e.text("for_llm"), want) {
					t.Errorf("%s: %v", call, e)
				}
			}
			if e := c.stored("STEVEDORE_RESULTS", "stevedore.completion.e.delegate-t1-1"); !strings.Contains(e.text("for_llm"), "born") {
				t.Errorf("the background task: %v", e)
			}
		})
	}
}

// A call that a worker of another process runs is not started again when "up" is killed and
// starts again, although that worker needs a while to connect again: neither when its lease
// goes on nor, with a short one, when it has ended meanwhile.
func TestRestartBesideAnotherWorker(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for _, lease := range []string{"30s", "1s"} {
		t.Run(lease, func(t *testing.T) {
			t.Parallel()
			var started atomic.Int64
			page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				started.Add(1)
				_ = http.NewResponseController(w).Flush() // now the tool waits for the rest
				<-r.Context().Done()
			}))
			defer page.Close()
			listen := bustest.FreeAddress(t)
			data, workspace := filepath.Join(t.TempDir(), "data"), t.TempDir()
			run := func(queue string) *process {
				p, err := launch("up", "--json", "--listen", listen, "--data", data, "--workspace", workspace, "--lease", lease,
					"--queue", queue, "--web-allow", "127.0.0.0/8", "--heartbeat-enabled=false")
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			p := run("home")
			url := urlOf(t, p)
			start(t, "serve", "--server", url, "--workspace", workspace, "--lease", lease, "--web-allow", "127.0.0.0/8")
			c := reconnecting(t, url)
			c.publish("stevedore.call.default.web_fetch", fmt.Sprintf(`{"id":"a","session":"s","args":{"url":"%s/slow"}}`, page.URL))
			for deadline := time.Now().Add(testTimeout); started.Load() == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the call did not start")
				}
			}
			time.Sleep(time.Second) // the server writes later which calls it has delivered
			for range 2 {
				p.kill()
				time.Sleep(2 * time.Second) // the other worker tries to connect less and less often
				p = run("default")
				time.Sleep(3 * time.Second) // longer than "up" waits for an answer
			}
			t.Cleanup(func() {
				if err := p.stop(); err != nil {
					t.Errorf("up: %v\n%s", err, p.stderr)
				}
			})
			page.CloseClientConnections()
			if n := started.Load(); n != 1 {
				t.Errorf("the call was started %d times", n)
			}
		})
	}
}

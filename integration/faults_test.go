package integration

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// For each fault of docs/operate.md that one server can have, "stevedore status" names the
// cause and what to do, /readyz of a worker that cannot work fails, and after the remedy nothing
// needs attention.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	server := []string{"--server", c.url(0), "--timeout", "20s"}
	p := start(t, append([]string{"serve", "--health", "127.0.0.1:0", "--workspace", t.TempDir(), "--channel", "hook=webhook:url=http://127.0.0.1:9/x", "--default-channel", "hook"}, server...)...)
	b, err := bus.Connect(t.Context(), bus.Config{Server: c.url(0), Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	problems := func() (found []string) {
		t.Helper()
		for _, problem := range problemsOf(t, server) {
			found = append(found, problem.Code+" "+problem.Name)
		}
		return found
	}
	ready := func() string { return readiness(t, p) }
	bustest.WaitUntil(t, "the worker is ready", func() bool { return ready() == "ok" })
	if got := problems(); len(got) > 0 {
		t.Errorf("at the start: %q", got)
	}

	streams := []string{b.StreamName(bus.Results), "KV_" + b.BucketName(bus.TasksBucket), "OBJ_" + b.BucketName(bus.BlobsBucket)}
	var want []string
	for _, name := range streams {
		if err := b.JetStream().DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		want = append(want, status.StreamMissing+" "+name)
	}
	if got := problems(); !slices.Equal(got, want) {
		t.Errorf("with missing streams: %q, want %q", got, want)
	}
	doctor := worker(t, append([]string{"doctor", "--workspace", t.TempDir()}, server...)...)
	if doctor.code != 1 || !strings.Contains(doctor.stdout, "OBJ_stevedore_blobs does not exist") || !strings.Contains(doctor.stdout, "stevedore provision") {
		t.Errorf("doctor: %+v", doctor)
	}
	bustest.WaitUntil(t, "the worker is not ready", func() bool { return strings.Contains(ready(), "stevedore provision") })
	if got := worker(t, append([]string{"provision"}, server...)...); got.code != 0 {
		t.Errorf("provision: %+v", got)
	}
	bustest.WaitUntil(t, "the worker is ready again", func() bool { return ready() == "ok" })

	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("hook"), Body: []byte(`{"text":"hello"}`)}); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the channel fails", func() bool {
		return strings.Join(problems(), ";") == string(trouble.Channel)+" hook"
	})
	if got := ready(); got != "ok" {
		t.Errorf("with a channel that fails, the worker says %q", got)
	}

	// A server that is gone is named at once.
	c.kill(0)
	began := time.Now()
	if got := worker(t, "status", "--server", c.url(0)); got.code != 4 || !strings.Contains(got.stderr, "no NATS server answers") {
		t.Errorf("without a server: %+v", got)
	}
	t.Logf("the answer took %s", time.Since(began))
}

// The status names a channel whose receiver accepts connections and never answers, and one whose
// process died while it sent.
func TestHangingChannelIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := startCluster(t, 1)
	server := []string{"--server", c.url(0), "--timeout", "20s"}
	receiver, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { receiver.Close() })
	start(t, append([]string{"serve", "--workspace", t.TempDir()}, server...)...)
	dies, err := launch(append([]string{"serve", "--queue", "other", "--workspace", t.TempDir(), "--channel", "hook=webhook:url=http://" + receiver.Addr().String()}, server...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dies.kill)
	b, err := bus.Connect(t.Context(), bus.Config{Server: c.url(0), Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	bustest.WaitUntil(t, "the channel", func() bool {
		_, exists, err := b.ConsumerInfo(t.Context(), b.ChannelConsumer("hook"))
		return err == nil && exists
	})
	for range 6 {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("hook"), Body: []byte(`{"text":"hello"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	named := func(code, text string) func() bool {
		return func() bool {
			return slices.ContainsFunc(problemsOf(t, server), func(p status.Problem) bool {
				return p.Code == code && p.Name == "hook" && strings.Contains(p.Text, text)
			})
		}
	}
	bustest.WaitUntil(t, "the receiver that hangs is named", named(string(trouble.Channel), "has not answered"))
	dies.kill()
	bustest.WaitUntil(t, "the channel without a process is named", named(status.ChannelWithoutWorker, "Notifications that wait: 6"))
	advised := slices.ContainsFunc(problemsOf(t, server), func(p status.Problem) bool {
		return p.Code == status.ChannelWithoutWorker && strings.Contains(p.Advice, "stevedore channels rm hook --server "+c.url(0))
	})
	if got := worker(t, append([]string{"channels", "rm", "hook"}, server...)...); got.code != 0 || !advised {
		t.Errorf("advised %t, then %+v", advised, got)
	}
	if named(status.ChannelWithoutWorker, "")() {
		t.Error("a channel that was removed is named")
	}
}

// If two of three servers are lost, status and /readyz name the cause and what to do, and the
// worker goes on when the servers are back.
func TestLostLeaderIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := startCluster(t, 3)
	server := []string{"--server", c.url(0), "--timeout", "20s"}
	if got := worker(t, append([]string{"provision", "--replicas", "3"}, server...)...); got.code != 0 {
		t.Fatalf("provision: %+v", got)
	}
	p := start(t, append([]string{"serve", "--health", "127.0.0.1:0", "--workspace", t.TempDir()}, server...)...)
	ready := func() bool { return readiness(t, p) == "ok" }
	bustest.WaitUntil(t, "the worker is ready", ready)
	leadAll(t, c.url(0), "n0") // this leader answers for seconds although it is alone
	bustest.WaitUntil(t, "status to name the only leader", func() bool {
		return slices.ContainsFunc(problemsOf(t, server), func(p status.Problem) bool { return p.Code == status.OneLeader && p.Name == "n0" })
	})
	c.kill(1)
	c.kill(2)
	began := time.Now()
	bustest.WaitUntil(t, "the worker is not ready", func() bool {
		return strings.Contains(readiness(t, p), "has no leader") && strings.Contains(readiness(t, p), "Start the servers")
	})
	t.Logf("/readyz names the lost leader after %s", time.Since(began))
	if got := worker(t, append([]string{"status"}, server...)...); strings.Contains(got.stdout, "could not read") || !strings.Contains(got.stdout, "no leader") || !strings.Contains(got.stdout, "Start the servers") {
		t.Errorf("status: %+v", got)
	}
	c.start(1)
	c.start(2)
	bustest.WaitUntil(t, "the worker is ready again", ready)
}

// If the only server of a stream is down, the stream is named, and the cluster, which has a leader, is not.
func TestLostStreamIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := startCluster(t, 3)
	server := []string{"--server", c.url(), "--timeout", "20s"}
	if got := worker(t, append([]string{"provision"}, server...)...); got.code != 0 {
		t.Fatalf("provision: %+v", got)
	}
	b, err := bus.Connect(t.Context(), bus.Config{Server: c.url(), Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	calls, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, append([]string{"serve", "--health", "127.0.0.1:0", "--workspace", t.TempDir()}, server...)...)
	ready := func() bool { return readiness(t, p) == "ok" }
	bustest.WaitUntil(t, "the worker is ready", ready)
	lost := int(calls.CachedInfo().Cluster.Leader[1] - '0')
	c.stop(lost)
	bustest.WaitUntil(t, "the stream is named", func() bool {
		named := false
		for _, p := range problemsOf(t, server) {
			if p.Code != status.StreamWithoutLeader {
				return false // perhaps the servers do not know it yet
			}
			named = named || p.Name == b.StreamName(bus.Calls) && strings.Contains(p.Text, "its only server") && strings.Contains(p.Advice, "Start the servers")
		}
		return named
	})
	bustest.WaitUntil(t, "the worker is not ready", func() bool { return strings.Contains(readiness(t, p), "Start the servers") })
	c.start(lost)
	bustest.WaitUntil(t, "the worker is ready again", ready)
}

// leadAll makes a server the leader of all streams.
func leadAll(t *testing.T, url, name string) {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Config{Server: url, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	bustest.WaitUntil(t, name+" to lead all streams", func() bool {
		all := true
		streams := b.JetStream().ListStreams(t.Context())
		for info := range streams.Info() {
			if info.Cluster != nil && info.Cluster.Leader == name {
				continue
			}
			all = false
			_, _ = b.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+info.Config.Name, []byte(`{"placement":{"preferred":"`+name+`"}}`), 2*time.Second)
		}
		return all && streams.Err() == nil
	})
}

// readiness returns what /readyz of a process says: "ok", or why it is not ready.
func readiness(t *testing.T, p *process) string {
	t.Helper()
	resp, err := http.Get("http://" + healthOf(t, p) + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(body))
}

// problemsOf returns what "stevedore status" says needs attention. Each problem has advice.
func problemsOf(t *testing.T, server []string) []status.Problem {
	t.Helper()
	got := worker(t, append([]string{"status", "--json"}, server...)...)
	var s status.Status
	err := json.Unmarshal([]byte(got.stdout), &s)
	unread := func(text string) bool { return !strings.HasPrefix(text, "heartbeats: ") } // which are in a stream that may be away
	if err != nil || slices.ContainsFunc(s.Errors, unread) {
		t.Fatalf("status: %+v, %v", got, err)
	}
	for _, problem := range s.Problems {
		if problem.Advice == "" {
			t.Errorf("no advice for %q", problem.Text)
		}
	}
	return s.Problems
}

// A data directory that is gone while its server runs is named, and no longer when it is back.
func TestGoneDirectoryIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	u := startUp(t, "--health", "127.0.0.1:0")
	away := u.data + ".away"
	if err := os.Rename(u.data, away); err != nil {
		t.Skip("an open directory cannot be moved here: ", err)
	}
	gone := func() bool {
		return slices.ContainsFunc(problemsOf(t, []string{"--server", u.url}), func(p status.Problem) bool {
			return p.Code == string(trouble.Directory) && strings.Contains(p.Advice, "put its directory or a backup in the place")
		})
	}
	bustest.WaitUntil(t, "the worker is not ready", func() bool { return strings.Contains(readiness(t, u.process), "was removed or replaced") })
	if !gone() {
		t.Error("status does not name it")
	}
	if err := errors.Join(os.RemoveAll(u.data), os.Rename(away, u.data)); err != nil { // the server writes its state again
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the worker is ready again", func() bool { return readiness(t, u.process) == "ok" })
	if gone() {
		t.Error("status still names it")
	}
}

// Status, doctor and /readyz name a stream that somebody has edited so that results are not stored, or sealed, and
// the command of the advice works in that state.
func TestAlteredStreamIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := startCluster(t, 1)
	server := []string{"--server", c.url(0), "--timeout", "20s"}
	p := start(t, append([]string{"serve", "--health", "127.0.0.1:0", "--workspace", t.TempDir()}, server...)...)
	b, err := bus.Connect(t.Context(), bus.Config{Server: c.url(0), Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	bustest.WaitUntil(t, "the worker is ready", func() bool { return readiness(t, p) == "ok" })
	dir := t.TempDir()
	alter := func(code string, change func(*jetstream.StreamConfig)) {
		t.Helper()
		results, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
		if err != nil {
			t.Fatal(err)
		}
		config := results.CachedInfo().Config
		change(&config)
		if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		got := problemsOf(t, server)
		if len(got) != 1 || got[0].Code != code || got[0].Name != b.StreamName(bus.Results) {
			t.Fatalf("status: %+v", got)
		}
		bustest.WaitUntil(t, "/readyz to name it", func() bool { return strings.Contains(readiness(t, p), b.StreamName(bus.Results)) })
		if d := worker(t, append([]string{"doctor", "--workspace", t.TempDir()}, server...)...); d.code != 1 || !strings.Contains(d.stdout, got[0].Advice) ||
			strings.Contains(d.stdout, "subjects is") {
			t.Errorf("doctor: %+v", d)
		}
		remedy := exec.Command("sh", "-c", `exec "$0"`+strings.TrimPrefix(pasted.FindStringSubmatch(got[0].Advice)[1], "stevedore"), workerProgram)
		remedy.Env, remedy.Dir = cleanEnvironment(), dir
		if out, err := remedy.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", remedy, err, out)
		}
	}
	alter(status.StreamAltered, func(config *jetstream.StreamConfig) { config.Subjects = []string{"stevedore.completion.*.*"} })
	bustest.WaitUntil(t, "the worker is ready again", func() bool { return readiness(t, p) == "ok" })
	if got := problemsOf(t, server); len(got) > 0 {
		t.Errorf("after the remedy: %+v", got)
	}
	alter(status.StreamSealed, func(config *jetstream.StreamConfig) { config.Sealed = true })
	if got := worker(t, "restore", filepath.Join(dir, "stevedore-backup"), "--server", startCluster(t, 1).url(0)); got.code != 0 {
		t.Errorf("restore: %+v", got)
	}
}

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// tenants is a server with the configuration that "stevedore provision --server-config"
// writes, and a worker of each tenant.
type tenants struct {
	t        *testing.T
	dir, url string
}

func startTenants(t *testing.T, workerFlags ...string) tenants {
	t.Helper()
	s := tenants{t: t, dir: filepath.Join(t.TempDir(), "config")}
	out := worker(t, "provision", "--server-config", s.dir, "--tenant", "red,blue", "--client", "red/s1,red/s2,blue/s1", "--queue-client", "red/default", "--bridge", "red/team")
	if out.code != 0 {
		t.Fatalf("provision --server-config: %s", out.stderr)
	}
	opts, err := server.ProcessConfigFile(filepath.Join(s.dir, "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	opts.Port, opts.NoSigs, opts.SyncAlways = -1, true, false
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(testTimeout) {
		t.Fatal("the server does not start")
	}
	s.url = srv.ClientURL()
	for _, tenant := range []string{"red", "blue"} {
		if out := worker(t, "provision", "--server", s.url, "--nkey", s.key(tenant+"-operator")); out.code != 0 {
			t.Fatalf("provision %s: %s", tenant, out.stderr)
		}
		workspace := t.TempDir()
		if err := os.WriteFile(filepath.Join(workspace, "secret.txt"), []byte("the secret of "+tenant+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, append([]string{"serve", "--server", s.url, "--nkey", s.key(tenant + "-worker"), "--inbox-prefix", "_INBOX_worker",
			"--workspace", workspace, "--data", t.TempDir(), "--log-level", "warn"}, workerFlags...)...)
		t.Cleanup(func() {
			if log := p.stderr.String(); strings.Contains(log, "ermissions Violation") {
				t.Errorf("the permissions of the worker do not suffice: %s", log)
			}
		})
	}
	return s
}

func (s tenants) key(user string) string { return filepath.Join(s.dir, user+".nk") }

// tenantClient is a client that collects the errors of the server.
type tenantClient struct {
	plain
	denied chan error
}

func (s tenants) connect(user string) tenantClient {
	s.t.Helper()
	key, err := nats.NkeyOptionFromSeed(s.key(user))
	if err != nil {
		s.t.Fatal(err)
	}
	denied := make(chan error, 100)
	nc, err := nats.Connect(s.url, key, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return tenantClient{plain{s.t, nc}, denied}
}

// refused reports whether the server denies the publish.
func (c tenantClient) refused(m *nats.Msg) bool {
	c.Helper()
	if err := c.nc.PublishMsg(m); err != nil {
		c.Fatal(err)
	}
	for {
		select {
		case err := <-c.denied:
			if errors.Is(err, nats.ErrPermissionViolation) {
				return true
			}
		case <-time.After(testTimeout):
			return false
		}
	}
}

// stored returns the subjects of the stream of a tenant.
func (c tenantClient) stored(stream string) map[string]uint64 {
	c.Helper()
	m, err := c.nc.Request("$JS.API.STREAM.INFO."+stream, []byte(`{"subjects_filter":">"}`), testTimeout)
	if err != nil {
		c.Fatal(err)
	}
	var info struct {
		State struct{ Subjects map[string]uint64 }
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		c.Fatalf("%s: %v", m.Data, err)
	}
	return info.State.Subjects
}

// Each login does its work.
func TestTenantsWork(t *testing.T) {
	t.Parallel()
	s := startTenants(t)
	for _, tenant := range []string{"red", "blue"} {
		operator := s.connect(tenant + "-operator")
		got := operator.request("call.default.read_file", `{"id":"c1","session":"s1","args":{"path":"secret.txt"},"offload":true}`)
		if text := got.text("for_llm"); !strings.Contains(text, "the secret of "+tenant) {
			t.Errorf("%s: %s", tenant, text)
		}
		client := s.connect(tenant + "-session-s1")
		if text := string(client.ask("stevedore.rpc.artifact.s1.get", `{"artifact_id":"c1"}`)); !strings.Contains(text, "the secret of "+tenant) {
			t.Errorf("the client of %s reads %s", tenant, text)
		}
		if text := string(client.ask("stevedore.rpc.tools.ls", `{}`)); !strings.Contains(text, "read_file") {
			t.Errorf("the client of %s lists %s", tenant, text)
		}
		next := client.subscribe("stevedore.result.s1.*")
		operator.publish("stevedore.call.default.list_dir", `{"id":"c2","session":"s1","args":{}}`)
		if got := next(); got.text("id") != "c2" {
			t.Errorf("the client of %s receives %v", tenant, got)
		}
		call := `{"args":{"path":"secret.txt"}}`
		if text := string(client.ask("stevedore.rpc.call.default.read_file.s1.c3", call)); !strings.Contains(text, "the secret of "+tenant) {
			t.Errorf("the client of %s calls and receives %s", tenant, text)
		}
		client.publish("stevedore.call.default.read_file.s1.c4", call)
		if got := next(); got.text("id") != "c3" {
			t.Errorf("the client of %s receives %v", tenant, got)
		}
		if got := next(); got.text("id") != "c4" {
			t.Errorf("the client of %s receives %v", tenant, got)
		}
		// The session in the subject applies, whatever the body says.
		if text := string(client.ask("stevedore.rpc.call.default.read_file.s1.c5", `{"session":"s2","args":{"path":"secret.txt"}}`)); !strings.Contains(text, "invalid_call") {
			t.Errorf("a body that names another session: %s", text)
		}
		reader := s.connect(tenant + "-readonly")
		if subjects := reader.stored("STEVEDORE_RESULTS"); subjects["stevedore.result.s1.c1"] != 1 {
			t.Errorf("read-only sees %v", subjects)
		}
		if text := string(reader.ask("stevedore.rpc.artifact.s1.get", `{"artifact_id":"c1"}`)); !strings.Contains(text, "the secret of "+tenant) {
			t.Errorf("read-only reads %s", text)
		}
	}
	s.connect("system")
}

// ask sends a request and returns the answer.
func (c tenantClient) ask(subject, body string) []byte {
	c.Helper()
	m, err := c.nc.Request(subject, []byte(body), testTimeout)
	if err != nil {
		c.Fatalf("%s: %v", subject, err)
	}
	return m.Data
}

// No client reads, changes or suppresses what belongs to another session or tenant,
// with any subject, reply or header.
func TestTenantsCannotCross(t *testing.T) {
	t.Parallel()
	s := startTenants(t)
	red, blue := s.connect("red-operator"), s.connect("blue-operator")
	for _, operator := range []tenantClient{red, blue} {
		operator.request("call.default.read_file", `{"id":"victim","session":"s2","args":{"path":"secret.txt"},"offload":true}`)
		operator.request("call.default.read_file", `{"id":"own","session":"s1","args":{"path":"secret.txt"},"offload":true}`)
	}
	streams := []string{
		"STEVEDORE_CALLS", "STEVEDORE_RESULTS", "STEVEDORE_TICKS", "STEVEDORE_OUTBOX", "STEVEDORE_SESSIONS", "STEVEDORE_DEAD",
		"KV_stevedore_state", "KV_stevedore_artifacts", "KV_stevedore_tasks", "OBJ_stevedore_blobs",
	}
	everything := func() string {
		all := map[string]map[string]uint64{}
		for i, operator := range []tenantClient{red, blue} {
			for _, stream := range streams {
				all[[]string{"red ", "blue "}[i]+stream] = operator.stored(stream)
			}
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := everything()

	forbidden := []string{
		"stevedore.call.default.read_file", "stevedore.call.default.read_file.s2.x", "stevedore.raw.default.x.s2.x",
		"stevedore.rpc.call.default.read_file", "stevedore.rpc.call.default.read_file.s2.x", "stevedore.rpc.submit.default.read_file.s2.x",
		"stevedore.rpc.artifact.s2.get", "stevedore.rpc.task.s2.list", "stevedore.rpc.task.s2.cancel", "stevedore.rpc.cron.s2.list",
		"stevedore.rpc.approval.s2.yes", "stevedore.rpc.approval.s1.yes",
		"stevedore.result.s2.x", "stevedore.result.s1.x", "stevedore.completion.s1.x", "stevedore.claim.s2.x", "stevedore.session.s2",
		"stevedore.notify.console", "stevedore.schedule.cron.x", "stevedore.tick.cron.x", "stevedore.dead.call.x", "stevedore.cancel.s2.victim",
		"stevedore.progress.s2.x", "stevedore.stored.result.s1.x", "stevedore.stored.result.s2.x", "stevedore.raw.default.x", "stevedore.run.cron.x", "$KV.stevedore_state.x", "$KV.stevedore_tasks.x", "$KV.stevedore_artifacts.x",
		"$O.stevedore_blobs.C.x", "$O.stevedore_blobs.M.x",
		"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.PURGE.STEVEDORE_CALLS", "$JS.API.STREAM.DELETE.STEVEDORE_CALLS", "$JS.API.STREAM.CREATE.MINE",
		"$JS.API.STREAM.MSG.DELETE.STEVEDORE_RESULTS", "$JS.API.DIRECT.GET.STEVEDORE_RESULTS.stevedore.result.s2.victim",
		"$JS.API.CONSUMER.CREATE.STEVEDORE_RESULTS", "$JS.API.CONSUMER.MSG.NEXT.STEVEDORE_CALLS.worker-default",
		"$JS.ACK.STEVEDORE_CALLS.worker-default.1.1.1.1.1", "$SRV.STATS", "$SYS.REQ.SERVER.PING", "_INBOX_worker.x", "_R_.x",
	}
	for _, user := range []string{"red-session-s1", "blue-session-s1"} {
		client := s.connect(user)
		for _, subject := range forbidden {
			m := nats.NewMsg(subject)
			m.Reply, m.Data = "_INBOX.x", []byte(`{}`)
			m.Header.Set("Nats-Rollup", "all")
			if !client.refused(m) {
				t.Errorf("%s can publish to %s", user, subject)
			}
		}
		for _, subject := range []string{">", "stevedore.>", "stevedore.result.>", "stevedore.result.s2.*", "stevedore.call.>", "_INBOX_worker.>", "$KV.>", "$JS.>", "_R_.>"} {
			if _, err := client.nc.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			_ = client.nc.Flush()
			select {
			case err := <-client.denied:
				if !errors.Is(err, nats.ErrPermissionViolation) {
					t.Error(err)
				}
			case <-time.After(testTimeout):
				t.Errorf("%s can subscribe to %s", user, subject)
			}
		}
		// The reply of a request is published by the server or by a worker, which may do more.
		for _, subject := range []string{"stevedore.rpc.tools.ls", "stevedore.rpc.artifact.s1.get", "stevedore.rpc.task.s1.list", "stevedore.call.default.x.s1.reply"} {
			for _, reply := range []string{
				"stevedore.result.s2.forged", "stevedore.completion.s2.forged", "stevedore.claim.s2.forged", "stevedore.stored.result.s2.forged", "stevedore.notify.console", "stevedore.call.default.shell",
				"$KV.stevedore_state.forged", "$O.stevedore_blobs.M.forged", "$JS.API.STREAM.PURGE.STEVEDORE_RESULTS", "$SYS.forged",
			} {
				m := nats.NewMsg(subject)
				m.Reply, m.Data = reply, []byte(`{"artifact_id":"own"}`)
				if err := client.nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Headers of the server do not let a call do more either.
		for i, header := range []nats.Header{
			{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"Nats-Msg-Id": {"s2.victim"}}, {"Nats-TTL": {"1s"}}, {"Nats-Expected-Last-Sequence": {"0"}},
			{"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"stevedore.call.default.shell"}},
			{"Nats-Batch-Id": {"x"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		} {
			m := nats.NewMsg(fmt.Sprintf("stevedore.call.default.list_dir.s1.header%d", i))
			m.Header, m.Data = header, []byte(`{"args":{}}`)
			if err := client.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		client.ask("stevedore.rpc.tools.ls", "{}") // the workers have handled the requests before
	}
	reader := s.connect("red-readonly")
	for _, subject := range []string{
		"stevedore.call.default.read_file", "stevedore.rpc.task.s1.cancel", "stevedore.rpc.artifact.s1.rm", "stevedore.rpc.cron.s1.rm", "stevedore.rpc.approval.s1.yes",
		"$JS.API.STREAM.PURGE.STEVEDORE_CALLS", "$JS.API.CONSUMER.CREATE.STEVEDORE_RESULTS", "$JS.API.STREAM.MSG.DELETE.STEVEDORE_DEAD", "$KV.stevedore_state.x",
	} {
		if !reader.refused(nats.NewMsg(subject)) {
			t.Errorf("read-only can publish to %s", subject)
		}
	}
	// A stored message is not published as a result: as the answer to a read.
	forged := nats.NewMsg("$JS.API.DIRECT.GET.STEVEDORE_RESULTS.stevedore.result.s1.own")
	forged.Reply = "stevedore.result.s2.forged"
	if err := reader.nc.PublishMsg(forged); err != nil {
		t.Fatal(err)
	}
	console := s.connect("red-console")
	for _, subject := range []string{"stevedore.result.s1.x", "stevedore.claim.s1.x", "$JS.API.STREAM.PURGE.STEVEDORE_CALLS", "$JS.API.STREAM.DELETE.STEVEDORE_CALLS", "$KV.stevedore_state.x",
		"$JS.API.CONSUMER.CREATE.STEVEDORE_RESULTS", "$JS.API.CONSUMER.CREATE.STEVEDORE_RESULTS.x", "$JS.API.CONSUMER.DURABLE.CREATE.STEVEDORE_RESULTS.x"} {
		if !console.refused(nats.NewMsg(subject)) {
			t.Errorf("the console can publish to %s", subject)
		}
	}
	worker := s.connect("red-worker")
	for _, subject := range []string{"$JS.API.STREAM.DELETE.STEVEDORE_CALLS", "$JS.API.STREAM.UPDATE.STEVEDORE_CALLS", "$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.PURGE.OTHER"} {
		if !worker.refused(nats.NewMsg(subject)) {
			t.Errorf("the worker can publish to %s", subject)
		}
	}

	after := everything()
	for _, text := range []string{"forged", "default.shell", ".x\""} {
		if strings.Contains(after, text) {
			t.Errorf("the streams contain %s: %s", text, after)
		}
	}
	for _, subject := range []string{"stevedore.result.s2.victim", "stevedore.result.s1.own"} {
		if strings.Count(after, subject) != strings.Count(before, subject) {
			t.Errorf("%s: before %s, after %s", subject, before, after)
		}
	}
	if _, err := nats.Connect(s.url); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a credential: %v", err)
	}
}

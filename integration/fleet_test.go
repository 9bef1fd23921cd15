package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// fleetOf is a server with tenants, and the directories of a process that serves them.
type fleetOf struct {
	t                             *testing.T
	config, tenants, spaces, data string
	address                       string
}

// startFleetServer starts a server that has one tenant, "first".
func startFleetServer(t *testing.T) *fleetOf {
	t.Helper()
	f := newFleet(t)
	f.startServer(filepath.Join(f.config, "nats-server.conf"))
	return f
}

// newFleet writes the configuration of a server that has one tenant, "first".
func newFleet(t *testing.T) *fleetOf {
	t.Helper()
	dir := t.TempDir()
	f := &fleetOf{
		t: t, config: filepath.Join(dir, "config"), tenants: filepath.Join(dir, "tenants"), spaces: filepath.Join(dir, "spaces"), data: filepath.Join(dir, "data"),
		address: bustest.FreeAddress(t),
	}
	for _, made := range []string{f.tenants, f.spaces, f.data} {
		if err := os.Mkdir(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f.run("provision", "--server-config", f.config, "--tenant", "first", "--server-listen", f.address)
	return f
}

func (f *fleetOf) startServer(config string) *server.Server {
	f.t.Helper()
	opts, err := server.ProcessConfigFile(config)
	if err != nil {
		f.t.Fatal(err)
	}
	opts.NoSigs = true
	srv, err := server.NewServer(opts)
	if err != nil {
		f.t.Fatal(err)
	}
	srv.Start()
	f.t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(testTimeout) {
		f.t.Fatal("the server does not start")
	}
	return srv
}

// run runs a command that succeeds, and returns what it printed.
func (f *fleetOf) run(args ...string) string {
	f.t.Helper()
	out := worker(f.t, args...)
	if out.code != 0 {
		f.t.Fatalf("stevedore %s: %s", strings.Join(args, " "), out.stderr)
	}
	return out.stdout
}

// add adds tenants with one command while the server and the process run.
func (f *fleetOf) add(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.write(filepath.Join(f.spaces, name, "note.txt"), noteOf(name))
	}
	f.run("provision", "--server-config", f.config, "--tenant", strings.Join(names, ","), "--client", names[0]+"/s1", "--serve-from", f.tenants, "--max-bytes", "16MiB")
}

func noteOf(tenant string) string { return "The note of " + tenant + ".\n" }

func (f *fleetOf) write(path, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleetOf) args(more ...string) []string {
	return append([]string{"serve", "--server", "nats://" + f.address, "--inbox-prefix", "_INBOX_worker", "--tenants", f.tenants,
		"--workspace", f.spaces, "--data", f.data, "--lease", "2s", many}, more...)
}

// connect connects as the operator of a tenant.
func (f *fleetOf) connect(name string) plain { return f.login(name + "-operator") }

func (f *fleetOf) login(user string) plain {
	f.t.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(f.config, user+".nk"))
	if err != nil {
		f.t.Fatal(err)
	}
	nc, err := nats.Connect("nats://"+f.address, key)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(nc.Close)
	return plain{f.t, nc}
}

// fleetSize is how many tenants TestKillFleet has; STEVEDORE_TENANTS overrides it.
func fleetSize(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("STEVEDORE_TENANTS"), "5"))
	if err != nil || n < 2 {
		t.Fatalf("STEVEDORE_TENANTS: want a number above 1")
	}
	return n
}

// One process serves many tenants, most of which are added while it runs. The test kills it in
// the middle of their calls and starts it again: each call has one result, a once-only call runs
// at most once, and each tenant has read its own files.
func TestKillFleet(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	f := startFleetServer(t)
	f.add("first")
	serve := func() *process {
		p, err := launch(f.args("--slots", "8")...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := serve()
	if p.first != "Workers of 1 tenants are consuming\n" {
		t.Errorf("the first line is %q", p.first)
	}
	names := []string{"first"}
	for i := 1; i < fleetSize(t); i++ {
		names = append(names, fmt.Sprintf("tenant-%d", i))
	}
	f.add(names[1:]...)
	loads := make([]*load, len(names))
	for i, name := range names {
		loads[i] = &load{plain: f.connect(name), u: up{workspace: filepath.Join(f.spaces, name)}, note: noteOf(name)}
	}
	const calls = 6
	for _, l := range loads {
		l.publish(calls)
	}
	for round := range 2 {
		for i := range loads { // any moment from the first call of a tenant to the last
			if i%2 == 0 {
				loads[i].awaitAnswers(round*calls + i%calls)
			}
		}
		p.kill()
		p = serve()
		for _, l := range loads {
			l.publish(calls)
		}
	}
	for _, l := range loads {
		l.check()
	}
	if err := p.stop(); err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
}

// A tenant sees nothing of another one or of the credentials. What is wrong with one stops no
// other, and its files start, change and stop it while the process runs.
func TestFleetKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	f := startFleetServer(t)
	f.add("red", "first")
	f.write(filepath.Join(f.tenants, "broken.nk"), "no seed\n")
	f.write(filepath.Join(f.tenants, "typo.yaml"), "workspaces: /tmp\n")
	f.write(filepath.Join(f.tenants, "notes.txt"), "who owns what\n")
	seed, err := os.ReadFile(filepath.Join(f.tenants, "red.nk"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, f.args("--health", "127.0.0.1:0")...)
	health := healthOf(t, p)
	first, red := f.connect("first"), f.connect("red")

	for tenant, c := range map[string]plain{"first": first, "red": red} {
		if got := c.request("call.default.read_file", `{"args":{"path":"note.txt"}}`).text("for_llm"); got != noteOf(tenant) {
			t.Errorf("%s reads %q", tenant, got)
		}
	}
	// A client that was added with the reload, too.
	session := f.login("red-session-s1")
	if got := session.request("call.default.read_file.s1.client", `{"args":{"path":"note.txt"}}`).text("for_llm"); got != noteOf("red") {
		t.Errorf("the client of a session reads %q", got)
	}
	// Files, by the tools and by commands.
	secrets := filepath.Join(f.tenants, "first.nk")
	for _, path := range []string{"../first/note.txt", filepath.Join(f.spaces, "first", "note.txt"), secrets} {
		if got := red.request("call.default.read_file", fmt.Sprintf(`{"args":{"path":%q}}`, path)); got["is_error"] != true {
			t.Errorf("red reads %s: %v", path, got)
		}
		if got := red.request("call.default.shell", fmt.Sprintf(`{"args":{"command":"cat %s"}}`, path)).text("for_llm"); strings.Contains(got, "The note of first") || strings.Contains(got, "SU") {
			t.Errorf("a command of red reads %s: %s", path, got)
		}
	}
	// Artifacts, tasks and conversations with the same ids.
	first.request("call.default.read_file", `{"args":{"path":"note.txt"}}`)
	m, err := first.nc.Request("stevedore.rpc.call.default.read_file.s1.own", []byte(`{"args":{"path":"note.txt"},"offload":true}`), testTimeout)
	if err != nil || !strings.Contains(string(m.Data), "The note of first") {
		t.Fatalf("%v: %s", err, m.Data)
	}
	for _, request := range []string{"artifact.s1.get", "artifact.s1.info", "task.s1.get"} {
		m, err := red.nc.Request("stevedore.rpc."+request, []byte(`{"artifact_id":"own","id":"own"}`), testTimeout)
		if err != nil || !strings.Contains(string(m.Data), "not_found") {
			t.Errorf("%s of red: %v: %s", request, err, m.Data)
		}
	}
	// Streams that only some tenants use are created at their first use, by the worker. Until then
	// they are empty for everybody.
	if m, err := red.nc.Request("$JS.API.STREAM.INFO.STEVEDORE_TICKS", nil, testTimeout); err != nil || !strings.Contains(string(m.Data), "stream not found") {
		t.Errorf("the stream of schedules of red: %v: %s", err, m.Data)
	}
	if out := f.run("dead", "ls", "--server", "nats://"+f.address, "--nkey", filepath.Join(f.config, "red-readonly.nk")); !strings.Contains(out, "No dead letters") {
		t.Errorf("dead letters of red: %s", out)
	}
	results := red.subscribe("stevedore.stored.result.s2.*")
	red.request("cron.s2.add", `{"name":"note","every":"1s","tool":"read_file","args":{"path":"note.txt"}}`)
	if got := results(); got.text("for_llm") != noteOf("red") {
		t.Errorf("the job of red returns %v", got)
	}
	// The log and the status name each wrong file, and the other tenants run.
	status := f.run("status", "--tenants", f.tenants, "--server", "nats://"+f.address, "--inbox-prefix", "_INBOX_worker")
	for _, want := range []string{"broken", "typo", "workspaces", "notes.txt"} {
		if !strings.Contains(status, want) || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("no %q in the status:\n%s\nor the log:\n%s", want, status, p.stderr)
		}
	}
	// A tenant that runs, and lacks a queue, needs another setting.
	first.request("submit.gpu.read_file", `{"args":{"path":"note.txt"}}`)
	await(t, p, "the status to name the setting", func() bool {
		out := f.run("status", "--tenants", f.tenants, "--server", "nats://"+f.address, "--inbox-prefix", "_INBOX_worker")
		return strings.Contains(out, "Calls that wait for one: 1. Correct the setting \"queue\" in ")
	})
	red.request("cron.s2.rm", `{"name":"note"}`)
	await(t, p, "the last run of the job to end", func() bool {
		return strings.Contains(scrape(t, health), `stevedore_slots_free{queue="default"} 64`+"\n")
	})
	metrics := scrape(t, health)
	for _, want := range []string{"stevedore_tenants 5\n", "stevedore_tenants_up 2\n", `stevedore_tenant_up{tenant="red"} 1` + "\n", `stevedore_tenant_up{tenant="broken"} 0` + "\n", "stevedore_ready 1\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	// A second credential of an account would run its calls in another workspace.
	f.write(filepath.Join(f.tenants, "copy.nk"), string(seed))
	await(t, p, "the copy to be refused", func() bool { return strings.Contains(p.stderr.String(), `the account of the tenant \"red\"`) })
	if out := worker(t, "status", "--check", "--tenants", f.tenants, "--server", "nats://"+f.address, "--inbox-prefix", "_INBOX_worker"); out.code == 0 || strings.Count(out.stdout, "each tenant needs an account") != 2 {
		t.Errorf("the status with a copy: exit code %d\n%s", out.code, out.stdout)
	}
	left := []string{"red.nk", "red.yaml"}
	refused := map[string]string{
		"workspace: " + filepath.Join(f.spaces, "first"): `the tenant \"first\" works in`,
		"workspace: " + f.spaces:                         "works in",
		"shell-sandbox: besteffort":                      "--shell-sandbox besteffort",
		"store: disk:" + f.data:                          "--store",
		"channel: log=file:notes":                        "--default-channel console",
		"data: " + f.data:                                `unknown setting \"data\"`,
		"nkey: " + secrets:                               "name a credential, and so does",
	}
	for bad := range refused { // all at once, because the process reads the files every 2 s
		name := "copy"
		if len(left) > 2 {
			name = fmt.Sprintf("copy-%d", len(left))
		}
		f.write(filepath.Join(f.tenants, name+".yaml"), bad+"\n")
		f.write(filepath.Join(f.tenants, name+".nk"), string(seed))
		left = append(left, name+".yaml", name+".nk")
	}
	for bad, why := range refused {
		await(t, p, "the setting "+bad+" to be refused", func() bool { return strings.Contains(p.stderr.String(), why) })
	}
	// Settings of its own, while it runs.
	f.write(filepath.Join(f.spaces, "elsewhere", "note.txt"), noteOf("elsewhere"))
	f.write(filepath.Join(f.tenants, "red.yaml"), "workspace: "+filepath.Join(f.spaces, "elsewhere")+"\n")
	await(t, p, "red to start again", func() bool {
		m, err := red.nc.Request("stevedore.rpc.call.default.read_file", []byte(`{"args":{"path":"note.txt"}}`), testTimeout)
		return err == nil && red.decode(m.Data).text("for_llm") == noteOf("elsewhere")
	})
	// Without its files, it stops. The others go on.
	for _, file := range left {
		if err := os.Remove(filepath.Join(f.tenants, file)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, p, "red to stop", func() bool {
		_, err := red.nc.Request("stevedore.rpc.tools.ls", []byte("{}"), time.Second)
		return err == nats.ErrNoResponders
	})
	// Without its workspace, it does not start again. A worker of its own would know none of its settings,
	// so the status leads to the process that serves the tenants.
	f.write(filepath.Join(f.tenants, "red.nk"), string(seed))
	f.write(filepath.Join(f.tenants, "red.yaml"), "workspace: "+filepath.Join(f.spaces, "gone")+"\n")
	await(t, p, "the status to say where red is served", func() bool {
		out := worker(t, "status", "--tenants", f.tenants, "--server", "nats://"+f.address, "--inbox-prefix", "_INBOX_worker").stdout
		return strings.Contains(out, "Start \"stevedore serve --tenants ") && !strings.Contains(out, "serve --nkey")
	})
	if got := first.request("call.default.read_file", `{"args":{"path":"note.txt"}}`).text("for_llm"); got != noteOf("first") {
		t.Errorf("first reads %q", got)
	}
}
